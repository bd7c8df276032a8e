"""Workers that end when their block allows: after TERM, on request, at a time, or after one study."""

from __future__ import annotations

import itertools
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs import queue
from tests.actors import ADMIN
from tests.workers.homes import Home, celery_worker, until
from workers.worker import ENDS, Ends, Worker

LOADS = [{"max_concurrency": 1, "num_prompts": 4}]
TWO_ARMS: list[dict[str, Any]] = [{"name": "plain", "baseline": True}, {"name": "other"}]
SLOW = {"token_s": 0.02}


def blocks(home: Home) -> Counter[int]:
    return Counter(run.repeat for run in home.runs())


@pytest.mark.engine
def test_a_terminated_worker_finishes_its_block_and_another_goes_on(woken_home: Home) -> None:
    home, may_go_on = woken_home, woken_home.folder / "may go on"
    plain, other = TWO_ARMS
    held = [plain, other | {"flags": {"await_file": str(may_go_on)}}]
    job_id = home.submit(arms=held, loads=LOADS, repeats=3, engine_flags=SLOW)
    with celery_worker(home) as worker:
        until(lambda: len(home.runs()) == 1, "half of the first block")
        worker.send_signal(signal.SIGTERM)
        may_go_on.touch()
        until(lambda: worker.poll() is not None, "it ends")
        assert worker.returncode == 0
    assert home.job(job_id).state == "queued"
    assert home.event_kinds(job_id) == ["submitted", "claimed", "released"]
    assert queue.events(home.database, job_id)[-1].detail.endswith(" drains")
    assert blocks(home) == {0: 2}
    first = {run.run_id for run in home.runs()}
    Worker(home.settings).work()
    assert blocks(home) == {0: 2, 1: 2, 2: 2}
    assert first < {run.run_id for run in home.runs()}


def test_a_worker_for_one_study_leaves_the_next_one_to_others(home: Home) -> None:
    ids = [home.submit(arms=TWO_ARMS[:1], loads=LOADS) for _ in range(2)]
    Worker(home.settings, Ends.read("once")).work()
    assert [home.job(job_id).state for job_id in ids] == ["done", "queued"]


@pytest.mark.engine
def test_a_worker_for_one_study_ends_where_there_is_none(woken_home: Home) -> None:
    with celery_worker(woken_home, **{ENDS: Ends(once=True).words}) as worker:
        until(lambda: worker.poll() is not None, "it ends")
        assert worker.returncode == 0


def test_a_worker_whose_time_is_over_takes_nothing(home: Home) -> None:
    job_id = home.submit(arms=TWO_ARMS[:1], loads=LOADS)
    now = datetime.now(UTC)
    for at, state in ((now - timedelta(seconds=1), "queued"), (now + timedelta(hours=1), "done")):
        worker = Worker(home.settings, Ends.read(Ends(until=at).words))
        worker._drain_if_asked()
        worker.work()
        assert home.job(job_id).state == state


@pytest.mark.parametrize(
    ("study", "asked_before", "left"),
    [
        ({"repeats": 4, "repeats_per_launch": 2}, 2, {0: 2, 1: 2}),
        ({"repeats": 2, "order": "fewest_launches"}, 2, {0: 1}),  # its only block is the study
        ({"repeats": 2, "spread": True, "alone": False}, 0, {0: 2}),
    ],
)
def test_what_a_drained_worker_measured_is_whole_blocks(
    home: Home, study: dict[str, object], asked_before: int, left: dict[int, int]
) -> None:
    """It begins to drain during its first run, or in its first block: it was asked before the engine and the run."""
    job_id = home.submit(arms=TWO_ARMS, loads=LOADS, **study)
    worker = Worker(home.settings)
    worker._why_no_jobs()
    job = worker._claim()
    assert job is not None
    asked = itertools.count()
    worker._draining.is_set = lambda: next(asked) >= asked_before  # type: ignore[method-assign]
    worker._measure_or_fail(job)
    assert (home.job(job_id).state, dict(blocks(home))) == ("queued", left)
    queue.cancel(home.database, job_id, actor=ADMIN)
