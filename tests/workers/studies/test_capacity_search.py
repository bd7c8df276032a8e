"""Searches for a capacity on real server processes that work on a known number of requests at a time."""

from __future__ import annotations

from itertools import pairwise, repeat
from typing import Any

from lab.metrics.records import RunRecord
from lab.schedule import End, schedule_of
from tests.workers.homes import Home, outcomes
from workers.worker import Worker

SLOTS, TRIES = {"plain": 1, "drafted": 3}, 10
SEARCH = {"label": "at once", "find": "concurrency", "max_concurrency": 16, "num_prompts": 16, "slo_share": 0.9}
#: An answer of 8 tokens takes 400 ms, and a request waits for as long as all of those before it take on the slots.
STUDY: dict[str, Any] = {
    "arms": [
        {"name": name, "flags": {"slots": slots, "token-s": 0.05}, "baseline": name == "plain"}
        for name, slots in SLOTS.items()
    ],
    "loads": [{"label": "one", "max_concurrency": 1, "num_prompts": 2}, SEARCH],
    "slo": {"ttft_ms": 375},
}


def trials_of(arm: str, runs: list[RunRecord]) -> list[RunRecord]:
    return [run for run in runs if run.arm.name == arm and run.trial is not None]


def any_above(arm: str, runs: list[RunRecord]) -> bool:
    return any(run.load.max_concurrency > SLOTS[arm] for run in trials_of(arm, runs))


def test_a_search_tries_loads_on_one_engine_start_until_it_knows(home: Home) -> None:
    """Once more where a busy machine was late itself: it answers nothing in time, or makes trials invalid, and after
    three of these a search is given up.
    """
    for _ in range(TRIES):
        job_id = home.submit(**STUDY)
        Worker(home.settings).work()
        job = home.job(job_id)
        assert (job.state, job.error) == ("done", None)
        runs = sorted((run for run in home.runs() if run.job_id == job_id), key=lambda run: run.started_at)
        if all(outcome.is_valid for outcome in outcomes(home, job)) and all(map(any_above, SLOTS, repeat(runs))):
            break
    assert {(run.arm.name, run.launch_index) for run in runs} == {("plain", 0), ("drafted", 1)}
    for name, slots in SLOTS.items():
        trials = trials_of(name, runs)
        tried = [run.load.max_concurrency for run in trials]
        assert min(tried) <= slots < max(tried) <= 16
        assert [run.trial.number for run in trials if run.trial] == list(range(len(trials)))
        assert all(run.status == "completed" for run in trials)
        assert all(before.started_at < after.started_at for before, after in pairwise(trials))
    early = [run for run in runs if run.ended_early is not None]
    assert early
    assert all("had missed the SLO" in (run.ended_early or "") and run.load.max_concurrency > 1 for run in early)
    assert schedule_of(job.study).next(outcomes(home, job)) == End("complete")
