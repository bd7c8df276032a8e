"""From bundles to a study's answer, and where it says that its numbers come from."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from host.settings import Settings
from lab.advice.answer_text import sentences
from tests.warehouse.studies import ROUNDS, RunSpec, write
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.answers import provenance, study_answer
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
