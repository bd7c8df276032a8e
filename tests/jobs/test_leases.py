"""Leases to the second: who may take a job, until when, and what the row and its events say afterwards."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from jobs import leases, queue
from jobs.leases import MAX_DEATHS_AT_ONE_POINT, LeaseLost
from jobs.table import Event, Job, Progress, State
from tests.workers.homes import Home
from warehouse.app_db.schema import jobs as jobs_table

NOW_S = 1_000_000.0
MEASURING = Progress(phase="measuring", arm="a", runs_total=4, runs_done=2, at="2026-11-21T04:00:00+00:00")


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock by which leases run out."""

    def set_to(seconds: float) -> None:
        monkeypatch.setattr("time.time", lambda: seconds)

    set_to(NOW_S)
    return set_to


def changed(home: Home, job_id: str, **values: Any) -> None:
    with home.database.begin() as connection:
        connection.execute(jobs_table.update().where(jobs_table.c.job_id == job_id).values(values))


def running(home: Home, worker: str = "me", lease_s: float = 30.0, hardware: str = "") -> Job:
    home.submit()
    found = leases.claim(home.database, worker, lease_s, hardware)
    assert found is not None
    return found


def last_event(home: Home, job_id: str) -> tuple[str, str]:
    event: Event = queue.events(home.database, job_id)[-1]
    assert abs((datetime.now(UTC) - event.at).total_seconds()) < 3600
    return event.kind, event.detail


def is_recent(moment: datetime | None) -> bool:
    return moment is not None and abs((datetime.now(UTC) - moment).total_seconds()) < 3600


@pytest.mark.usefixtures("now")
def test_a_claimed_job_is_its_workers_until_the_lease_ends(home: Home) -> None:
    job = running(home, "me", 30.0)
    assert (job.state, job.worker, job.lease_expires_at, job.finished_at) == ("running", "me", NOW_S + 30.0, None)
    assert is_recent(job.started_at)
    assert home.job(job.job_id) == job
    assert last_event(home, job.job_id) == ("claimed", "me")


def test_a_job_keeps_the_moment_at_which_it_was_first_started(home: Home) -> None:
    first = running(home)
    leases.release(home.database, first.job_id, "me")
    again = leases.claim(home.database, "other", 30.0)
    assert again is not None
    assert (again.started_at, again.worker) == (first.started_at, "other")


@pytest.mark.parametrize(
    ("state", "wanted", "hardware", "waits"),
    [
        ("queued", None, "", True),
        ("queued", None, "NVIDIA H200", True),
        ("queued", "h200", "", False),
        ("queued", "h200", "AMD EPYC", False),
        ("queued", "h200", "NVIDIA H200", True),
        ("running", None, "", False),
        ("cancelled", None, "NVIDIA H200", False),
    ],
)
def test_a_job_waits_for_a_worker_while_it_is_queued_and_the_hardware_fits(
    home: Home,
    state: State,
    wanted: str | None,
    hardware: str,
    waits: bool,  # noqa: FBT001
) -> None:
    assert leases.has_queued(home.database) is False
    changed(home, home.submit(), state=state, hardware=wanted)
    assert leases.has_queued(home.database, hardware) is waits
    assert leases.has_queued(home.database) is (waits and wanted is None)


def test_a_heartbeat_renews_its_own_job_alone(home: Home, now: Callable[[float], None]) -> None:
    mine, other = running(home), running(home, "other")
    now(NOW_S + 20)
    assert leases.heartbeat(home.database, mine.job_id, "me", 30.0, MEASURING) is True
    found = home.job(mine.job_id)
    assert (found.lease_expires_at, found.progress, found.state) == (NOW_S + 50, MEASURING, "running")
    assert home.job(other.job_id) == other
    now(NOW_S + 40)
    assert leases.heartbeat(home.database, mine.job_id, "me", 30.0, None) is True
    found = home.job(mine.job_id)
    assert (found.lease_expires_at, found.progress) == (NOW_S + 70, MEASURING)


@pytest.mark.parametrize(("state", "error"), [("done", None), ("failed", "it broke"), ("cancelled", None)])
def test_a_finished_job_is_nobodys_and_says_how_it_ended(home: Home, state: State, error: str | None) -> None:
    job, other = running(home), running(home, "other")
    leases.finish(home.database, job.job_id, "me", state, error=error, progress=MEASURING)
    found = home.job(job.job_id)
    assert (found.state, found.error, found.worker, found.lease_expires_at) == (state, error, None, None)
    assert found.progress == MEASURING
    assert is_recent(found.finished_at)
    assert last_event(home, job.job_id) == (state, error or "")
    assert home.job(other.job_id) == other


def test_a_finished_job_keeps_the_progress_that_it_had(home: Home) -> None:
    job = running(home)
    leases.heartbeat(home.database, job.job_id, "me", 30.0, MEASURING)
    leases.finish(home.database, job.job_id, "me", "done")
    assert (home.job(job.job_id).progress, home.job(job.job_id).error) == (MEASURING, None)


def test_a_released_job_is_queued_again_with_what_it_has(home: Home) -> None:
    job = running(home)
    leases.heartbeat(home.database, job.job_id, "me", 30.0, MEASURING)
    leases.release(home.database, job.job_id, "me")
    found = home.job(job.job_id)
    assert (found.state, found.worker, found.lease_expires_at, found.progress) == ("queued", None, None, MEASURING)
    assert (found.finished_at, found.error) == (None, None)
    assert last_event(home, job.job_id) == ("released", "me stopped")


def test_whoever_is_not_the_owner_is_told_and_changes_nothing(home: Home) -> None:
    job = running(home)
    for worker, job_id in (("other", job.job_id), ("me", "nobody")):
        for write in (
            lambda: leases.heartbeat(home.database, job_id, worker, 9.0, MEASURING),  # noqa: B023 - called here
            lambda: leases.finish(home.database, job_id, worker, "done"),  # noqa: B023
            lambda: leases.release(home.database, job_id, worker),  # noqa: B023
        ):
            with pytest.raises(LeaseLost, match=f"^job {job_id} is no longer {worker}'s$"):
                write()
    assert home.job(job.job_id) == job
    leases.release(home.database, job.job_id, "me")
    with pytest.raises(LeaseLost):
        leases.heartbeat(home.database, job.job_id, "me", 9.0, MEASURING)


def test_a_lease_holds_to_its_last_moment_and_no_longer(home: Home, now: Callable[[float], None]) -> None:
    job = running(home, lease_s=30.0)
    now(NOW_S + 30.0)
    assert leases.requeue_expired(home.database) == []
    assert home.job(job.job_id) == job
    now(NOW_S + 30.001)
    assert leases.requeue_expired(home.database) == [job.job_id]
    found = home.job(job.job_id)
    assert (found.state, found.worker, found.lease_expires_at) == ("queued", None, None)
    assert (found.finished_at, found.error) == (None, None)
    assert last_event(home, job.job_id) == ("requeued", "its worker fell silent before its first run")


@pytest.mark.usefixtures("now")
def test_only_the_jobs_of_dead_workers_are_put_back_and_one_without_a_lease(home: Home) -> None:
    mine, dead, unleased = running(home), running(home, "dead"), running(home, "unleased")
    changed(home, unleased.job_id, lease_expires_at=None)
    asked: list[str] = []

    def is_dead(worker: str) -> bool:
        asked.append(worker)
        return worker == "dead"

    assert sorted(leases.requeue_expired(home.database, is_dead)) == sorted([dead.job_id, unleased.job_id])
    assert set(asked) == {"me", "dead"}
    assert home.job(mine.job_id) == mine
    changed(home, mine.job_id, worker=None)
    assert leases.requeue_expired(home.database, lambda worker: worker == "") == [mine.job_id]


def test_the_event_says_how_far_the_job_was(home: Home) -> None:
    job = running(home)
    leases.heartbeat(home.database, job.job_id, "me", -1.0, MEASURING)
    leases.requeue_expired(home.database)
    assert last_event(home, job.job_id) == ("requeued", "its worker fell silent after 2 of 4 runs")


def test_a_job_whose_cancelling_nobody_answered_is_cancelled(home: Home) -> None:
    job = running(home, lease_s=-1.0)
    queue.cancel(home.database, job.job_id)
    assert leases.requeue_expired(home.database) == [job.job_id]
    found = home.job(job.job_id)
    assert (found.state, found.error, found.worker) == ("cancelled", None, None)
    assert is_recent(found.finished_at)
    assert last_event(home, job.job_id) == ("cancelled", "its worker fell silent before its first run")


def die(home: Home, times: int, progress: Progress | None = None) -> Job:
    """The only job loses its worker so many times."""
    for _ in range(times):
        claimed = leases.claim(home.database, "me", -1.0)
        assert claimed is not None
        job_id = claimed.job_id
        if progress is not None:
            leases.heartbeat(home.database, job_id, "me", -1.0, progress)
        leases.requeue_expired(home.database)
    return home.job(job_id)


def test_a_job_fails_with_the_ninth_death_at_one_point_and_not_before(home: Home) -> None:
    home.submit()
    job = die(home, MAX_DEATHS_AT_ONE_POINT)
    assert (MAX_DEATHS_AT_ONE_POINT, job.state) == (8, "queued")
    job = die(home, 1)
    error = "its worker died 9 times before its first run: see the worker's log, then retry"
    assert (job.state, job.error, job.worker, job.lease_expires_at) == ("failed", error, None, None)
    assert is_recent(job.finished_at)
    assert last_event(home, job.job_id) == ("failed", error)


def test_deaths_elsewhere_of_another_job_or_before_a_retry_do_not_count(home: Home) -> None:
    other = home.submit()
    die(home, MAX_DEATHS_AT_ONE_POINT)
    queue.cancel(home.database, other)
    home.submit()
    job = die(home, MAX_DEATHS_AT_ONE_POINT)
    assert job.state == "queued"
    job = die(home, MAX_DEATHS_AT_ONE_POINT, MEASURING)
    assert job.state == "queued"
    job = die(home, 1)  # still after two of four runs
    assert job.state == "failed"
    assert job.error == "its worker died 9 times after 2 of 4 runs: see the worker's log, then retry"
    queue.retry(home.database, job.job_id)
    assert die(home, MAX_DEATHS_AT_ONE_POINT).state == "queued"
    assert die(home, 1).state == "failed"


def test_expired_leases_are_only_those_of_running_jobs(home: Home) -> None:
    waiting = home.submit()
    changed(home, waiting, lease_expires_at=0.0)
    assert leases.requeue_expired(home.database) == []
    assert home.event_kinds(waiting) == ["submitted"]


def test_two_transactions_cannot_both_take_the_oldest_job(home: Home) -> None:
    ids = sorted(home.submit() for _ in range(3))
    moment = datetime(2026, 11, 21, tzinfo=UTC)
    with home.database.begin() as connection:
        connection.execute(sa.update(jobs_table).values(submitted_at=moment))
    taken = [leases.claim(home.database, "me", 30.0) for _ in ids]
    assert [job.job_id for job in taken if job] == ids  # of the same moment: by id
