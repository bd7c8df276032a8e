"""Engines that stay up for the next study: taken over only by an identical launch, and never left behind."""

from __future__ import annotations

import platform
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from jobs.fleet.worker_registry import list_workers
from lab.metrics.records import RunRecord
from lab.study.plan import PlannedRun
from tests.warehouse.asking import ask
from tests.workers.homes import NGRAM, REPOSITORY, Home, until, worker_environment
from warehouse.app_db.engine import DATABASE_ERRORS
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.paired_runs import arm_runs
from warehouse.queries.connect import open_warehouse
from workers.engine_runtime.process import end_kept
from workers.job_progress import JobStatus
from workers.worker import Worker

LONG_S = 3600.0
LOADS = [{"max_concurrency": 1, "num_prompts": 3}]


@pytest.fixture
def keeping(home: Home) -> Iterator[tuple[Home, Worker]]:
    home = replace(home, settings=home.settings.model_copy(update={"keep_engines_for_s": LONG_S}))
    say_version(home, "1.2.3")
    worker = Worker(home.settings)
    yield home, worker
    worker.end_engines()
    assert home.engine_processes() == []
    assert list((home.settings.home / "engines").glob("*.kept")) == []


def say_version(home: Home, version: str) -> None:
    table = home.settings.engines_file.read_text()
    says = f'version_command = ["echo", "{version}"]\n[vllm.environment]'
    home.settings.engines_file.write_text(table.replace("[vllm.environment]", says))


TWO_ARMS = [{"name": "plain"}, {"name": "drafted", "speculation": NGRAM}]


def measured(home: Home, worker: Worker, **study: Any) -> tuple[str, list[RunRecord]]:
    job_id = home.submit(**{"arms": TWO_ARMS, "loads": LOADS, "order": "side_by_side"} | study)
    worker.work()
    assert (home.job(job_id).state, home.job(job_id).error) == ("done", None)
    return job_id, [run for run in home.runs() if run.job_id == job_id]


def pids(home: Home) -> set[int]:
    return {process.pid for process in home.engine_processes()}


def engines_standing_still(home: Home) -> list[psutil.Process]:
    engines = [process for process in home.engine_processes() if "stand_in_engine" in " ".join(process.cmdline()[1:4])]
    return [process for process in engines if process.status() == psutil.STATUS_STOPPED]


def standing_still(home: Home) -> bool:
    return len(engines_standing_still(home)) == 2


def test_an_engine_whose_version_is_unknown_is_not_kept(home: Home) -> None:
    """A wrapper or a container's tag may start another one tomorrow."""
    keeping = replace(home, settings=home.settings.model_copy(update={"keep_engines_for_s": LONG_S}))
    worker = Worker(keeping.settings)
    measured(keeping, worker)
    assert pids(home) == set()


def test_the_same_study_takes_the_engines_over_and_counts_one_start(keeping: tuple[Home, Worker]) -> None:
    home, worker = keeping
    first, before = measured(home, worker)
    until(lambda: standing_still(home), "both are suspended")
    up = pids(home)
    second, after = measured(home, worker, name="another name", loads=[{"max_concurrency": 1, "num_prompts": 4}])
    third, last = measured(home, worker)
    assert pids(home) == up
    assert {run.taken_over_from for run in before} == {None}
    assert {run.taken_over_from for run in (*after, *last)} == {f"{first}/0"}
    assert {run.circumstances.start_s for run in after} == {run.circumstances.start_s for run in before}
    assert {run.warmup_requests for run in (*before, *after, *last)} == {4}
    assert {run.reset_problem for run in (*after, *last)} == {None}
    ingest_all(home.settings)
    with open_warehouse(home.settings.warehouse_file) as con:
        arms = arm_runs(con, [first, third], "output_tok_per_s")
        assert {run.launch for arm in arms for run in arm.runs} == {f"{first}/0/{platform.node()}"}
    assert ask(home.settings, "select count(*) from runs where log_end_bytes is not null") == [(6,)]
    assert list((home.settings.logs_dir / "engines").glob(f"{second}*.log")) == []


def other_flags(_home: Home) -> dict[str, Any]:
    return {"engine_flags": {"token_s": 0.002}}


def other_weights(home: Home) -> dict[str, Any]:
    (home.folder / "model" / "model.safetensors").write_bytes(b"weights that were trained further")
    return {}


def other_tokenizer(home: Home) -> dict[str, Any]:
    (home.folder / "model" / "tokenizer.json").write_text("{}")
    return {}


def one_arm(_home: Home) -> dict[str, Any]:
    return {"arms": TWO_ARMS[:1]}


def short_of_memory(home: Home) -> dict[str, Any]:
    end_kept(home.settings.home / "engines")  # as another worker of this host does
    return {}


@pytest.mark.parametrize("change", [other_flags, other_weights, other_tokenizer, one_arm, short_of_memory])
def test_any_other_launch_starts_its_own_engines(
    keeping: tuple[Home, Worker], change: Callable[[Home], dict[str, Any]]
) -> None:
    home, worker = keeping
    measured(home, worker)
    before = pids(home)
    _, runs = measured(home, worker, **change(home))
    assert {run.taken_over_from for run in runs} == {None}
    assert before.isdisjoint(pids(home))


def test_another_repeat_of_the_same_study_gets_a_start_of_its_own(keeping: tuple[Home, Worker]) -> None:
    home, worker = keeping
    arms = TWO_ARMS[:1]
    _, runs = measured(home, worker, arms=arms, order="interleaved", repeats=2)
    up = pids(home)
    _, again = measured(home, worker, arms=arms, order="interleaved", repeats=2)
    assert [run.launch_index for run in again if run.taken_over_from is not None] == [0]
    assert {run.taken_over_from for run in again} == {None, f"{runs[0].job_id}/1"}
    assert up.isdisjoint(pids(home))


def test_engines_are_not_kept_if_one_was_started_again(
    keeping: tuple[Home, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The idle one is killed while the other is measured, so that no run fails."""
    (home, worker), begins, killed = keeping, JobStatus.window_begins, list[psutil.Process]()

    def killing(status: JobStatus, run: PlannedRun) -> None:
        begins(status, run)
        if killed:
            return
        until(lambda: engines_standing_still(home), "the idle one has been suspended")
        killed.extend(engines_standing_still(home))
        guards = [process.parent() for process in killed]
        for process in killed:
            process.kill()
        ended = psutil.STATUS_ZOMBIE
        until(lambda: all(it is not None and it.status() == ended for it in guards), "the guard ends")

    monkeypatch.setattr(JobStatus, "window_begins", killing)
    _, runs = measured(home, worker)
    assert len(killed) == 1
    assert [run.status for run in runs] == ["completed"] * 2
    assert pids(home) == set()


def test_they_end_with_their_time_while_the_database_is_away(home: Home) -> None:
    home = replace(home, settings=home.settings.model_copy(update={"keep_engines_for_s": 5.0}))
    say_version(home, "1.2.3")
    worker = Worker(home.settings)
    measured(home, worker)
    with home.database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE alembic_version RENAME TO away"))

    def are_gone() -> bool:
        with pytest.raises(DATABASE_ERRORS):
            worker.work()
        return not home.engine_processes()

    until(are_gone, "they end")


def test_they_end_when_their_time_is_over(home: Home) -> None:
    home = replace(home, settings=home.settings.model_copy(update={"keep_engines_for_s": 0.2}))
    say_version(home, "1.2.3")
    worker = Worker(home.settings)
    measured(home, worker)

    def are_gone() -> bool:
        worker.work()
        return not home.engine_processes()

    until(are_gone, "they end")
    assert measured(home, worker)[1][0].taken_over_from is None
    worker.end_engines()


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_ends_leaves_none_behind(home: Home, end: signal.Signals) -> None:
    environment = worker_environment(home) | {"DRAFTHOUSE_KEEP_ENGINES_FOR_S": f"{LONG_S}"}
    home.submit(arms=TWO_ARMS, loads=LOADS, order="side_by_side")
    say_version(home, "1.2.3")
    command = (sys.executable, "-m", "tests.workers.unattended")
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment) as worker:
        until(lambda: any(it.keeps for it in list_workers(home.database)), "it says that it keeps engines")
        (listed,) = list_workers(home.database)
        assert (listed.keeps or "").startswith("2 engines until ")
        until(lambda: standing_still(home), "both are suspended")
        worker.send_signal(end)
    until(lambda: not home.engine_processes(), "no engine is left")
