"""Traps that only the runs of a study show together, and those of its prompts, measured as a user's study is."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from jobs import queue
from jobs.datasets.registry import add
from lab.errors import QueryError
from lab.validity import Severity, judge_study
from tests.actors import ADMIN
from tests.validity_for_real.conftest import NGRAM, TRIES, Judged, judged_runs, measured_once, prepared, serving
from tests.warehouse.asking import ask
from tests.workers.engine_runtime.stand_ins import worked
from tests.workers.homes import Home, new_home
from warehouse.ingest.service import ingest_all
from warehouse.sandbox.runner import run_sql
from workers.worker import Worker

pytestmark = [pytest.mark.engine, pytest.mark.timeout(5400)]

TOKENIZER = Path(__file__).parents[2] / "models" / "target" / "tokenizer.json"
LONG = 500
HEALTHY = {"name": "healthy draft", "engine": "trapped", "speculation": NGRAM, "baseline": True}
LOADS = [{"max_concurrency": streams, "num_prompts": 4} for streams in (1, 2)]
OF_A_RUN: tuple[tuple[str, Severity, str], ...] = (
    ("prompts_without_category", "note", "4 of 4 requests have no category"),
    ("synthetic_prompts", "note", "random is random tokens"),
    ("trace_without_text", "warning", "2 of 2 requests come from a trace without texts"),
    ("prefix_cache_of_sessions", "note", "50 % of the prompt tokens of these sessions came from the prefix cache"),
)
OF_AN_IDLE_ENGINE = "idle_engine_busy"
OF_OUR_OWN_WORK = "work_beside"
OF_A_STUDY: tuple[tuple[str, Severity, str], ...] = (
    ("draft_remembers", "invalid", "of 'remembers' rose from cell to cell on one engine start (1, 2 tokens a round)"),
    ("not_interleaved", "note", "All repeats of 'remembers', 'wakes_late'"),
    ("baseline_of_other_conditions", "invalid", "prompts "),
    ("price_without_date", "note", "the study's own price, 2.5 USD an hour, which has no date and no source."),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, migrated: Any) -> Iterator[Home]:
    with new_home(tmp_path_factory.mktemp("together"), migrated) as made:
        shutil.copy(TOKENIZER, made.folder / "model")
        prepared(made, rows("A", category="prose"))
        yield made


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving("none", "drafting", "wakes_late", "remembers", "keeps_turns") as it:
        yield it


@pytest.fixture(scope="module")
def healthy(home: Home, port: int) -> list[Judged]:
    """Two arms, two concurrencies, two repeats, A B B A."""
    dataset = str(home.folder / "long.jsonl")
    arms = their_arms(port, "none", "drafting")
    workloads = [{"dataset": dataset, "output_tokens": 32}]
    for _ in range(TRIES):  # what has its reason in a check comes again, what this machine held up does not
        job = worked(home, arms=arms, workloads=workloads, loads=LOADS, repeats=2)
        assert (job.state, job.error) == ("done", None)
        runs = judged_runs(home, job.job_id)
        told = judge_study([judged.in_study for judged in runs]).findings
        if not told and all(judged.verdict.valid for judged in runs):
            break
        print(f"the machine held a healthy study up: {told}")
    return runs


@pytest.fixture(scope="module")
def retried(home: Home, port: int) -> list[Judged]:
    """One arm's server was not there yet. Its file of prompts was edited before the job was retried."""
    file = home.folder / "edited.jsonl"
    write(file, rows("B"))
    arms = their_arms(port, "none", "wakes_late", "remembers")
    about = {"workloads": [{"dataset": str(file), "output_tokens": 16}], "loads": LOADS[:1], "repeats": 2}
    job = worked(home, arms=arms, order="fewest_launches", price_usd_per_hour=2.5, **about)
    assert job.error is not None
    assert "the model is loading" in job.error
    write(file, rows("C"))
    queue.retry(home.database, job.job_id, actor=ADMIN)
    Worker(home.settings).work()
    assert home.job(job.job_id).error is None
    return [judged_run for judged_run in judged_runs(home, job.job_id) if judged_run.bundle.run.status == "completed"]


@pytest.fixture(scope="module")
def warehouse(home: Home, healthy: list[Judged], retried: list[Judged]) -> Settings:
    """With both studies, which are judged when they are taken in."""
    assert healthy
    assert retried
    ingest_all(home.settings)
    return home.settings


@pytest.fixture(scope="module")
def made_prompts(home: Home, port: int) -> list[Judged]:
    """Random tokens, and nobody is compared with anybody."""
    workloads = [{"dataset": "random", "input_tokens": 32, "output_tokens": 16}]
    job = worked(home, arms=their_arms(port, "none"), workloads=workloads, loads=LOADS[:1])
    return judged_runs(home, job.job_id)


@pytest.fixture(scope="module")
def conversations(home: Home, port: int) -> list[Judged]:
    """Those of a trace that records lengths alone, and sessions on a server that keeps their turns."""
    lengths, told = home.folder / "lengths.jsonl", home.folder / "told.jsonl"
    write(lengths, [{"timestamp": 0, "input_length": 40, "output_length": 8} for _ in range(2)])
    add(home.settings.datasets, "mooncake", lengths)
    turns = [{"role": role, "content": f"{role} says much. " * 9} for role in ("user", "assistant", "user")]
    write(told, [{"messages": turns, "category": "prose"} for _ in range(2)])
    workloads = [
        {"dataset": "mooncake", "output_tokens": 8},
        {"dataset": str(told), "output_tokens": 16, "sessions": {}},
    ]
    loads = [{"max_concurrency": 1, "num_prompts": 2}]
    job = worked(home, arms=their_arms(port, "keeps_turns"), workloads=workloads, loads=loads)
    assert (job.state, job.error) == ("done", None)
    return judged_runs(home, job.job_id)


@pytest.fixture(scope="module")
def every_kind_of_prompt(
    retried: list[Judged], made_prompts: list[Judged], conversations: list[Judged]
) -> list[Judged]:
    return [*retried, *made_prompts, *conversations]


def of_job(runs: list[Judged]) -> str:
    return f"job_id = '{runs[0].bundle.run.job_id}'"


def rows(which: str, **more: str) -> list[dict[str, str]]:
    return [{"prompt": f"{which}: prompt {number} of many. " * 9} | more for number in range(4)]


def write(file: Path, prompts: Sequence[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in prompts), encoding="utf-8")


def their_arms(port: int, baseline: str, *drafting: str) -> list[dict[str, Any]]:
    def arm(name: str) -> dict[str, Any]:
        return {"name": name, "engine": "endpoint", "server": {"base_url": f"http://127.0.0.1:{port}/{name}"}}

    return [arm(baseline) | {"baseline": True}, *(arm(name) | {"speculation": NGRAM} for name in drafting)]


@pytest.mark.parametrize(("check", "severity", "words"), OF_A_RUN, ids=[expected[0] for expected in OF_A_RUN])
def test_prompts_that_say_little_are_told_so(
    every_kind_of_prompt: list[Judged], check: str, severity: Severity, words: str
) -> None:
    fired = [
        finding
        for judged_run in every_kind_of_prompt
        for finding in judged_run.verdict.findings
        if finding.check == check
    ]
    assert {finding.severity for finding in fired} == {severity}
    assert all(words in finding.sentence for finding in fired)


@pytest.mark.parametrize(("check", "severity", "words"), OF_A_STUDY, ids=[expected[0] for expected in OF_A_STUDY])
def test_a_study_that_falls_into_a_trap_is_told_so(
    warehouse: Settings, retried: list[Judged], check: str, severity: Severity, words: str
) -> None:
    fired = ask(
        warehouse, f"select severity, sentence from study_findings where {of_job(retried)} and check_name = '{check}'"
    )
    assert [severity_found for severity_found, _ in fired] == [severity]
    assert words in fired[0][1]


def test_a_healthy_study_is_told_nothing_and_every_check_could_look(warehouse: Settings, healthy: list[Judged]) -> None:
    assert ask(warehouse, f"select sentence from study_findings where {of_job(healthy)}") == []
    assert ask(warehouse, f"select runs_judged, unjudged_checks from study_validity where {of_job(healthy)}") == [
        (8, [])
    ]


def test_its_runs_are_told_none_of_what_is_provoked_here(healthy: list[Judged]) -> None:
    checks = {finding.check for judged_run in healthy for finding in judged_run.verdict.findings}
    assert not checks & {check for check, *_ in OF_A_RUN}


def test_an_engine_that_works_beside_the_measured_one_is_told_of(home: Home) -> None:
    """Side by side with one that uses what it gets of a processor without a request, where it is not suspended."""
    home = replace(home, settings=home.settings.model_copy(update={"suspend_idle_engines": False}))
    dataset = str(home.folder / "long.jsonl")
    arms = [{"name": "plain", "baseline": True}, {"name": "busy", "flags": {"never_idle": True}}]
    workloads = [{"dataset": dataset, "output_tokens": 400}]
    job = worked(home, arms=arms, workloads=workloads, loads=LOADS[:1], order="side_by_side")
    assert (job.state, job.error) == ("done", None)
    by_arm = {
        judged_run.bundle.run.arm.name: [
            fired for fired in judged_run.verdict.findings if fired.check == OF_AN_IDLE_ENGINE
        ]
        for judged_run in judged_runs(home, job.job_id)
    }
    assert by_arm["busy"] == []
    assert [finding.severity in ("warning", "invalid") for finding in by_arm["plain"]] == [True]
    assert "The engine of 'busy', which should have been idle, took" in by_arm["plain"][0].sentence


def test_questions_that_are_asked_beside_a_window_are_told_of(home: Home) -> None:
    """Each starts a process of its own, at the lowest priority."""
    over = threading.Event()

    def ask_again_and_again() -> None:
        while not over.is_set():
            with suppress(QueryError):  # a machine with much to do gives the lowest priority nothing for its 30 s
                run_sql(home.settings, "select count(*) from runs")

    asking = threading.Thread(target=ask_again_and_again)
    asking.start()
    try:
        dataset = str(home.folder / "long.jsonl")
        (judged,) = measured_once(home, dataset, [HEALTHY], [{"max_concurrency": 2, "num_prompts": 4}], 400)
    finally:
        over.set()
        asking.join()
    (fired,) = [finding for finding in judged.verdict.findings if finding.check == OF_OUR_OWN_WORK]
    assert fired.severity in ("note", "warning")
    assert "the page's question 'sql'" in fired.sentence


def test_a_long_healthy_run_with_a_draft_is_told_nothing(home: Home) -> None:
    """As many requests as the percentiles need; once more, and no oftener, where the machine held it up. Runs that say
    so themselves are not counted.
    """
    clean, busy, counted = {"several_tokens_a_chunk"}, {"client_lag", "late_sends", "other_programs"}, 0
    file = home.folder / "many.jsonl"
    write(file, [{"prompt": f"{n}: {'prompt of many ' * 5}", "category": "prose"} for n in range(LONG)])
    for _ in range(TRIES):
        (judged,) = measured_once(home, str(file), [HEALTHY], [{"max_concurrency": 4, "num_prompts": LONG}], 16)
        checks = {finding.check for finding in judged.verdict.findings}
        counted += not checks & busy
        if checks <= clean or counted == 2:
            break
    assert checks <= clean | busy, judged.verdict.findings
    assert judged.verdict.skipped == ()
