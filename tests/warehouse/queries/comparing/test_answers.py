"""From bundles to a study's answer, where its numbers come from, and the newest study of a target."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from host.settings import Settings
from lab.advice.answer_text import sentences
from lab.metrics.records import Identity
from tests.warehouse.asking import ask
from tests.warehouse.runs import ingested
from tests.warehouse.studies import ROUNDS, RunSpec, write
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.answers import Headline, headlines, provenance, study_answer
from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.connect import open_warehouse

SLOWER, FASTER, ALIKE = (1.9, 1.91, 1.89), (1.1, 1.104, 1.098), (1.3, 1.304, 1.298)


def measure(settings: Settings, paces: Sequence[float], rounds: dict[str, int] | None) -> None:
    """Three repeats of a baseline and of one arm at two loads."""
    for load in ("c2", "c4"):
        for repeat, pace in enumerate(paces):
            write(settings, RunSpec("plain", repeat, 1 + repeat / 500, load=load))
            write(settings, RunSpec("other", repeat, pace, rounds, load=load))
    ingest_all(settings)


@pytest.mark.parametrize(
    ("paces", "rounds", "expected"),
    [
        (SLOWER, ROUNDS, "at every concurrency measured (2, 4) leave speculation off."),
        (FASTER, ROUNDS, "enable other at every concurrency measured (2, 4): "),
        (ALIKE, None, "at every concurrency measured (2, 4) keep plain."),  # an arm that does not speculate
    ],
)
def test_the_answer_of_a_study_names_what_to_deploy(
    settings: Settings, paces: Sequence[float], rounds: dict[str, int] | None, expected: str
) -> None:
    measure(settings, paces, rounds)
    with open_warehouse(settings.warehouse_file) as con:
        comparison = compare_study(con, "small")
        (workload,) = sentences(study_answer(comparison)).workloads
        origin = provenance(con, comparison)
    assert expected in workload
    assert (origin.study, origin.runs, origin.repeats) == ("small", 12, (3,))
    assert (origin.target, origin.engines) == ("reference", ("vllm 0.32.0",))
    assert origin.jobs == comparison.jobs


def test_the_headline_stands_on_the_strict_reading_whichever_the_others_do(settings: Settings) -> None:
    measure(settings, FASTER, ROUNDS)
    with open_warehouse(settings.warehouse_file) as con:
        readings = [study_answer(compare_study(con, "small", strict=strict)) for strict in (False, True)]
    assert [answer.strict for answer in readings] == [False, True]
    assert all(answer.headline is not None and answer.headline.strict.word == "faster" for answer in readings)


def headlines_of(settings: Settings) -> list[Headline]:
    with ingested(settings) as con:
        return headlines(con)


def pair_of_runs(settings: Settings, repeat: int, *, load: str = "c4", pace: float = 1.0, **changes: object) -> None:
    """A baseline and a drafted run of one repeat."""
    write(settings, RunSpec("plain", repeat, 1 + 0.002 * repeat, load=load), **changes)
    write(settings, RunSpec("drafted", repeat, pace, ROUNDS, load=load), **changes)


def test_what_others_published_is_no_headline_of_ours(settings: Settings) -> None:
    assert headlines_of(settings) == []
    ((published,),) = ask(settings, "select count(*) from results where origin = 'published'")
    assert published


def test_an_arm_that_is_the_baseline_again_is_no_headline(settings: Settings) -> None:
    def identity(arm: str) -> Identity:
        return Identity(cell_id=arm, arm_id=arm, workload_id="w", load_id="l")

    for repeat in range(2):
        write(settings, RunSpec("plain", repeat), identity=identity("plain"))
        write(settings, RunSpec("plain again", repeat, 0.3), identity=identity("plain"))
    assert headlines_of(settings) == []
    for repeat in range(2):
        write(settings, RunSpec("drafted", repeat, 0.9, ROUNDS), identity=identity("drafted"))
    (headline,) = headlines_of(settings)
    assert headline.study_name == "small"


def test_the_newest_study_of_a_target_gives_the_headline(settings: Settings) -> None:
    for repeat in range(2):
        pair_of_runs(settings, repeat, pace=0.5)
        newer = {"job_id": "20261122-000000-0000", "started_at": f"2026-11-22T04:0{repeat}:00+00:00"}
        pair_of_runs(settings, repeat, load="c2", pace=1.0, **newer)
    (headline,) = headlines_of(settings)
    assert headline.job_id == "20261122-000000-0000"


def test_each_target_has_its_own_and_what_cannot_be_believed_has_none(settings: Settings) -> None:
    pair_of_runs(settings, 0)
    other = {"target": "another", "job_id": "20261121-000000-0000"}
    write(settings, RunSpec("plain", 0, workload="other"), **other)
    write(settings, RunSpec("drafted", 0, 1.0, ROUNDS, workload="other"), **other, status="failed", error="it died")
    (headline,) = headlines_of(settings)
    assert headline.target != "another"
    assert ask(settings, "select count(*) from results where target = 'another'") == [(2,)]
