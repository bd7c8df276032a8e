"""Studies whose arms' engines are up side by side, with stand-in engines."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from jobs import queue
from jobs.table import Job
from lab.errors import HostError, UserError
from lab.metrics.measure import measure
from lab.metrics.records import RunRecord
from lab.study.plan import PlannedRun
from tests.actors import ADMIN
from tests.warehouse.runs import records
from tests.workers.homes import Home, until
from warehouse.bundles.run_bundle import find_bundles, read_bundle
from workers.engine_runtime import process
from workers.engine_runtime.memory_check import memory_bytes, refuse_without_memory, while_memory_lasts
from workers.engine_runtime.process import EngineProcess
from workers.heartbeat import WorkerStops
from workers.job_progress import JobStatus
from workers.worker import Worker

LOAD = [{"max_concurrency": 1, "num_prompts": 3}]


def arms(**flags: dict[str, Any]) -> list[dict[str, Any]]:
    """A baseline and two more, with these flags by name."""
    every = [{"name": name, "flags": flags.get(name, {})} for name in ("plain", "second", "third")]
    return [every[0] | {"baseline": True}, *every[1:]]


def measured(home: Home, **study: Any) -> tuple[Job, list[RunRecord]]:
    """Submit a study side by side and measure it; the runs in the order of time."""
    job_id = home.submit(**({"order": "side_by_side", "loads": LOAD} | study))
    Worker(home.settings).work()
    return home.job(job_id), sorted(home.runs(), key=lambda run: run.started_at)


def starts(file: Path) -> int:
    return len(file.read_text().splitlines())


def test_all_engines_start_once_for_two_repeats_in_drawn_orders(home: Home, tmp_path: Path) -> None:
    counters = {name: {"counter_file": str(tmp_path / name)} for name in ("plain", "second", "third")}
    job, runs = measured(home, arms=arms(**counters), repeats=3)
    assert (job.state, job.error) == ("done", None)
    orders = [[run.arm.name for run in runs[first : first + 3]] for first in (0, 3, 6)]
    assert [sorted(order) for order in orders] == [["plain", "second", "third"]] * 3
    assert orders[1] == orders[0][::-1]
    assert [(run.repeat, run.launch_index) for run in runs] == [(0, 0)] * 3 + [(1, 0)] * 3 + [(2, 1)] * 3
    assert [starts(tmp_path / name) for name in counters] == [2, 2, 2]
    assert job.progress is not None
    assert (job.progress.runs_done, job.progress.launches_done, job.progress.launches_total) == (9, 2, 2)
    assert home.engine_processes() == []
    assert list((home.settings.logs_dir / "engines").glob("*.log")) == []


#: Two cells of four windows each.
IN_ROUNDS: dict[str, Any] = {
    "workloads": [{"output_tokens": 24}],
    "loads": [{"max_concurrency": 1, "num_prompts": 4}, {"max_concurrency": 2, "num_prompts": 24}],
}


def in_rounds(home: Home, **study: Any) -> list[RunRecord]:
    workloads = [{"output_tokens": 24} | home.prompts]
    return measured(home, **(IN_ROUNDS | {"workloads": workloads} | study))[1]


def test_runs_are_measured_in_rounds_that_send_the_same_prompts_on_every_arm(home: Home) -> None:
    runs = in_rounds(home, arms=arms())
    assert {(run.status, len(run.windows or ())) for run in runs} == {("completed", 4)}
    begun = sorted((window.started_at, run.arm.name, run.load.name) for run in runs for window in run.windows or ())
    threes = [begun[first : first + 3] for first in range(0, len(begun), 3)]
    assert all(len({load for _, _, load in three}) == 1 for three in threes)
    assert all({arm for _, arm, _ in three} == {"plain", "second", "third"} for three in threes)
    sent: dict[tuple[str, int | None], set[tuple[str, ...]]] = {}
    for folder in find_bundles(home.settings.bundles):
        bundle = read_bundle(folder)
        requests = records(bundle.requests)
        assert len({request.prompt_id for request in requests}) == bundle.run.load.num_prompts
        for number in range(4):
            prompts = tuple(request.prompt_id for request in requests if request.round == number)
            sent.setdefault((bundle.run.load.name, number), set()).add(prompts)
    assert len(sent) == 8
    assert all(len(prompts) == 1 for prompts in sent.values())


def test_runs_in_rounds_share_one_warm_up_of_all_workloads_under_a_load(home: Home) -> None:
    """The engine generated only its tokens before the first window, and eight when it had started."""
    workloads = [home.prompts | {"output_tokens": tokens} for tokens in (24, 48)]
    runs = in_rounds(home, arms=arms()[:2], workloads=workloads, loads=[{"max_concurrency": 2, "num_prompts": 24}])
    assert {(run.status, run.warmup_requests) for run in runs} == {("completed", 4)}
    for arm in ("plain", "second"):
        first = min((run for run in runs if run.arm.name == arm), key=lambda run: run.started_at)
        assert first.counters_before is not None
        assert first.counters_before.generation_tokens == 8 + 4 * 10


def test_a_run_in_rounds_has_the_time_and_the_counters_of_its_windows(home: Home) -> None:
    runs = in_rounds(home, arms=arms())
    for run in runs:
        windows = run.windows or ()
        assert [window.start_s for window in windows] == [0.0, *(window.end_s for window in windows[:-1])]
        assert run.duration_s == pytest.approx(windows[-1].end_s)
        assert run.counters_before is not None
        assert run.counters_after is not None
        tokens = 24 * run.load.num_prompts
        assert (run.counters_after.generation_tokens or 0) - (run.counters_before.generation_tokens or 0) == tokens
        assert [window.counted and window.counted.generation_tokens for window in windows] == [tokens / 4] * 4
    spans = spans_of(runs)
    measured_s = sum(run.duration_s or 0.0 for run in runs)
    assert spans[-1][1] - spans[0][0] > measured_s * 0.9  # one window after the other


def spans_of(runs: list[RunRecord]) -> list[tuple[float, float, str]]:
    """Begin and end of each window, with its arm's name, in the order of time."""
    spans = []
    for run in runs:
        for window in run.windows or ():
            began_s = datetime.fromisoformat(window.started_at).timestamp()
            spans.append((began_s, began_s + window.end_s - window.start_s, run.arm.name))
    return sorted(spans)


def test_where_a_server_counts_no_chunks_several_streams_have_one_window_on_every_arm(home: Home) -> None:
    runs = in_rounds(home, arms=arms(second={"count_at_the_end": True}))
    windows = {(run.arm.name, run.load.max_concurrency): len(run.windows or ()) for run in runs}
    assert windows == {(arm, streams): 4 * (streams == 1) for arm in ("plain", "second", "third") for streams in (1, 2)}
    for folder in find_bundles(home.settings.bundles):
        bundle = read_bundle(folder)
        assert measure(bundle.run, bundle.requests)["output_tok_per_s"] is not None
        assert len(bundle.requests) == bundle.run.load.num_prompts


def test_engines_that_are_not_suspended_rest_before_the_next_window(home: Home) -> None:
    home = replace(home, settings=home.settings.model_copy(update={"suspend_idle_engines": False}))
    runs = in_rounds(home, arms=arms()[:2], loads=[{"max_concurrency": 1, "num_prompts": 2}])
    changes = [(one, other) for one, other in pairwise(spans_of(runs)) if one[2] != other[2]]
    assert changes
    assert all(later_s - ended_s > 1.1 for (_, ended_s, _), (later_s, *_) in changes)


def test_an_engine_that_dies_in_a_round_fails_one_run_and_the_others_go_on(home: Home, tmp_path: Path) -> None:
    """Its first requests are one for the start and at most seven for both warm-ups."""
    flags: dict[str, dict[str, Any]] = {
        name: {"counter_file": str(tmp_path / name)} for name in ("plain", "second", "third")
    }
    flags["second"] |= {"die_at_request": 12, "die_once": str(tmp_path / "died")}
    runs = in_rounds(home, arms=arms(**flags))
    failed = [run for run in runs if run.status == "failed"]
    assert [run.arm.name for run in failed] == ["second"]
    assert len(runs) == 6
    assert {len(run.windows or ()) for run in runs if run.status == "completed"} == {4}
    assert [starts(tmp_path / name) for name in flags] == [1, 2, 1]
    assert home.engine_processes() == []


def test_a_worker_that_is_stopped_in_a_round_measures_its_runs_anew(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins, begun = JobStatus.window_begins, list[str]()

    def stopping(status: JobStatus, run: PlannedRun) -> None:
        begun.append(run.arm.name)
        if len(begun) == 10:
            raise WorkerStops
        begins(status, run)

    monkeypatch.setattr(JobStatus, "window_begins", stopping)
    job_id = home.submit(
        order="side_by_side", arms=arms(), **IN_ROUNDS | {"workloads": [home.prompts | {"output_tokens": 24}]}
    )
    Worker(home.settings).work()
    assert home.job(job_id).state in ("queued", "done")
    Worker(home.settings).work()
    runs = home.runs()
    assert home.job(job_id).state == "done"
    assert Counter((run.arm.name, run.status, len(run.windows or ())) for run in runs) == {
        (name, "completed", 4): 2 for name in ("plain", "second", "third")
    }
    assert home.engine_processes() == []


def test_engines_start_together(home: Home, tmp_path: Path) -> None:
    """Each waits for the next one to begin its start."""
    begun = {name: str(tmp_path / name) for name in ("plain", "second", "third")}
    after = {"plain": "second", "second": "third", "third": "plain"}
    flags = {name: {"counter_file": file, "await_file": begun[after[name]]} for name, file in begun.items()}
    job, runs = measured(home, arms=arms(**flags))
    assert (job.state, job.error) == ("done", None)
    assert {run.status for run in runs} == {"completed"}
    assert all((run.circumstances.start_s or 0) > 0 for run in runs)


def test_idle_engines_stand_still_while_another_is_measured(home: Home) -> None:
    job, runs = measured(home, arms=arms(third={"never_idle": True}), repeats=2)
    assert (job.state, {run.status for run in runs}) == ("done", {"completed"})
    took = [engine.cpu_percent for run in runs for engine in run.idle_engines]
    assert took == [0.0] * 2 * len(runs)


def test_a_run_records_its_order_and_what_the_idle_engines_took(home: Home) -> None:
    home = replace(home, settings=home.settings.model_copy(update={"suspend_idle_engines": False}))
    _, runs = measured(
        home,
        arms=arms(third={"never_idle": True}),
        workloads=[{"output_tokens": 3000} | home.prompts],
        loads=[{"max_concurrency": 1, "num_prompts": 1}],
    )
    assert {run.order for run in runs} == {"side_by_side"}
    plain = next(run for run in runs if run.arm.name == "plain")
    took = {engine.arm: engine for engine in plain.idle_engines}
    assert set(took) == {"second", "third"}
    assert took["second"].cpu_percent is not None
    assert took["second"].cpu_percent < (took["third"].cpu_percent or 0.0)
    busy = next(run for run in runs if run.arm.name == "third")
    assert {engine.arm for engine in busy.idle_engines} == {"plain", "second"}


def test_with_one_engine_at_a_time_no_engine_is_idle(home: Home) -> None:
    _, runs = measured(home, order="interleaved")
    assert {(run.order, run.idle_engines) for run in runs} == {("interleaved", ())}


def test_only_an_engine_that_died_is_started_again(home: Home, tmp_path: Path) -> None:
    """The second arm dies at a measured request: hello 1, warm-up 4, window 3."""
    flags: dict[str, dict[str, Any]] = {
        name: {"counter_file": str(tmp_path / name)} for name in ("plain", "second", "third")
    }
    flags["second"] |= {"die_at_request": 7, "die_once": str(tmp_path / "died")}
    _, runs = measured(home, arms=arms(**flags), repeats=2, repeats_per_launch=2)
    assert Counter((run.arm.name, run.status) for run in runs) == {
        ("plain", "completed"): 2,
        ("third", "completed"): 2,
        ("second", "completed"): 1,
        ("second", "failed"): 1,
    }
    assert [starts(tmp_path / name) for name in flags] == [1, 2, 1]


def test_an_arm_whose_engine_does_not_start_fails_alone(home: Home) -> None:
    job, runs = measured(home, arms=arms(second={"fail_to_start": True}), repeats=2)
    assert job.state == "done"
    failed = [run for run in runs if run.status == "failed"]
    assert [run.arm.name for run in failed] == ["second", "second"]
    assert all("ended with exit status 1" in (run.error or "") for run in failed)
    others = [run for run in runs if run.arm.name != "second"]
    assert all("second" not in {engine.arm for engine in run.idle_engines} for run in others)


def test_a_retry_starts_all_engines_for_what_is_missing(home: Home, tmp_path: Path) -> None:
    flags: dict[str, dict[str, Any]] = {
        name: {"counter_file": str(tmp_path / name)} for name in ("plain", "second", "third")
    }
    flags["third"] |= {"die_on_first_request": True, "die_once": str(tmp_path / "died")}
    job, _ = measured(home, arms=arms(**flags))
    queue.retry(home.database, job.job_id, actor=ADMIN)
    Worker(home.settings).work()
    again = [run for run in home.runs() if run.attempt == 1]
    assert [(run.arm.name, run.status) for run in again] == [("third", "completed")]
    assert {engine.arm for engine in again[0].idle_engines} == {"plain", "second"}
    assert [starts(tmp_path / name) for name in flags] == [2, 2, 2]


async def test_engines_that_start_together_are_given_up_before_they_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await while_memory_lasts(asyncio.sleep(0, "ready")) == "ready"
    memory = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory._replace(available=memory.total // 11))
    was_cancelled = asyncio.Event()

    async def never_ready() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            was_cancelled.set()

    start_together = 'memory left while the engines of this study start together: use order = "int'
    with pytest.raises(HostError, match=f"{start_together}.* or end the other programs"):
        await while_memory_lasts(never_ready())
    await asyncio.wait_for(was_cancelled.wait(), 600)
    readings = iter([memory._replace(available=memory.total)])
    filled = memory._replace(available=memory.total // 11)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: next(readings, filled))
    with pytest.raises(UserError, match=f"{start_together}.*at a time$") as refused:
        await while_memory_lasts(never_ready())
    assert not refused.value.is_of_host


def test_an_engine_that_the_memory_cannot_hold_is_refused_unstarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine: EngineProcess = process.start(("sleep", "600"), {}, tmp_path / "log", tmp_path / "marks")
    try:
        until(lambda: memory_bytes(engine) > 0, "the program has been loaded")
        takes = memory_bytes(engine)  # now: pages that it shares with other processes count by their number
        refuse_without_memory([engine])
        left = psutil.virtual_memory()._replace(available=takes // 8)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: left)
        with pytest.raises(HostError, match=r'use order = "interleaved".* or end the other programs'):
            refuse_without_memory([engine])
        monkeypatch.setattr(psutil, "virtual_memory", lambda: left._replace(total=takes))
        with pytest.raises(UserError, match=r"memory left for 2 more engines of this study, .*at a time$") as refused:
            refuse_without_memory([], more=2, least_bytes=takes)
        assert not refused.value.is_of_host
    finally:
        engine.stop(0.1)
