"""A spread study makes room for others after each block, also on the slot of the worker that began it."""

from __future__ import annotations

import pytest

from jobs import order, queue
from tests.actors import ADMIN
from tests.workers.homes import Home
from workers.worker import Worker

pytestmark = pytest.mark.engine
PLAIN = {"arms": [{"name": "plain"}], "loads": [{"max_concurrency": 1, "num_prompts": 4}], "alone": False}


def order_of_runs(home: Home) -> list[str]:
    return [run.job_id for run in sorted(home.runs(), key=lambda run: run.started_at)]


def test_a_short_study_waits_for_one_block_of_a_long_one(home: Home) -> None:
    long, short = home.submit(**PLAIN, repeats=3, spread=True), home.submit(**PLAIN)
    Worker(home.settings).work()
    assert order_of_runs(home) == [long, short, long, long]
    assert [home.job(job_id).state for job_id in (long, short)] == ["done", "done"]
    assert home.event_kinds(long) == ["submitted", "claimed", "released", "claimed", "done"]
    (released,) = [event for event in queue.events(home.database, long) if event.kind == "released"]
    assert released.detail.endswith(" makes room for another study")
    progress = home.job(long).progress
    assert progress is not None
    assert (progress.runs_done, progress.runs_total) == (3, 3)


def test_two_long_studies_are_measured_block_by_block_in_turn(home: Home) -> None:
    first, second = (home.submit(**PLAIN, repeats=2, spread=True) for _ in range(2))
    Worker(home.settings).work()
    assert order_of_runs(home) == [first, second, first, second]


def test_a_study_of_lower_priority_waits_for_a_spread_ones_end(home: Home) -> None:
    long, lower = home.submit(**PLAIN, repeats=2, spread=True), home.submit(**PLAIN)
    order.reprioritise(home.database, lower, -1, actor=ADMIN)
    Worker(home.settings).work()
    assert order_of_runs(home) == [long, long, lower]
