"""Leases to the second: who may take a job, until when, and what the row and its events say afterwards."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from jobs import order, queue
from jobs.fleet import leases
from jobs.fleet.leases import MAX_DEATHS_AT_ONE_POINT, LeaseLost
from jobs.table import Event, Job, Progress, State
from lab.errors import UserError
from tests.actors import ADMIN
from tests.workers.homes import Home
from warehouse.app_db.clock import database_now_s
from warehouse.app_db.schema import jobs as jobs_table

MEASURING = Progress(phase="measuring", arm="a", runs_total=4, runs_done=2, at="2026-11-21T04:00:00+00:00")


def left_s(home: Home, job_id: str) -> float:
    """How long the job's lease lasts by the database's clock."""
    with home.database.connect() as connection:
        left = sa.select(jobs_table.c.lease_expires_at - database_now_s()).where(jobs_table.c.job_id == job_id)
        return float(connection.execute(left).scalar_one())


def changed(home: Home, job_id: str, **values: Any) -> None:
    with home.database.begin() as connection:
        connection.execute(jobs_table.update().where(jobs_table.c.job_id == job_id).values(values))


def running(home: Home, worker: str = "me", lease_s: float = 600.0, hardware: str = "") -> Job:
    home.submit()
    claimed = leases.claim(home.database, worker, lease_s, hardware)
    assert claimed is not None
    return claimed


def last_event(home: Home, job_id: str) -> tuple[str, str]:
    event: Event = queue.events(home.database, job_id)[-1]
    assert abs((datetime.now(UTC) - event.at).total_seconds()) < 3600
    return event.kind, event.detail


def is_recent(moment: datetime | None) -> bool:
    return moment is not None and abs((datetime.now(UTC) - moment).total_seconds()) < 3600


def test_a_claimed_job_is_its_workers_until_the_lease_ends(home: Home) -> None:
    job = running(home, "me", 3000.0)
    assert (job.state, job.worker, job.finished_at) == ("running", "me", None)
    assert 2900 < left_s(home, job.job_id) <= 3000
    assert is_recent(job.started_at)
    assert home.job(job.job_id) == job
    assert last_event(home, job.job_id) == ("claimed", "me")


def test_a_job_keeps_the_moment_at_which_it_was_first_started(home: Home) -> None:
    first = running(home)
    leases.release(home.database, first.job_id, "me")
    again = leases.claim(home.database, "other", 600.0)
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
def test_a_queued_job_waits_for_a_worker_with_its_hardware(
    home: Home,
    state: State,
    wanted: str | None,
    hardware: str,
    waits: bool,  # noqa: FBT001
) -> None:
    assert leases.claim(home.database, "me", 600.0, hardware) is None
    changed(home, home.submit(), state=state, hardware=wanted)
    if wanted is not None:
        assert leases.claim(home.database, "nobody", 600.0) is None
    assert (leases.claim(home.database, "me", 600.0, hardware) is not None) is waits


def test_a_heartbeat_renews_its_own_job_alone(home: Home) -> None:
    mine, other = running(home), running(home, "other")
    assert leases.heartbeat(home.database, mine.job_id, "me", 2000.0, MEASURING) is True
    renewed = home.job(mine.job_id)
    assert (renewed.progress, renewed.state) == (MEASURING, "running")
    assert 1900 < left_s(home, mine.job_id) <= 2000
    assert home.job(other.job_id) == other
    assert leases.heartbeat(home.database, mine.job_id, "me", 3000.0, None) is True
    assert home.job(mine.job_id).progress == MEASURING
    assert 2900 < left_s(home, mine.job_id) <= 3000


@pytest.mark.parametrize(("state", "error"), [("done", None), ("failed", "it broke"), ("cancelled", None)])
def test_a_finished_job_is_nobodys_and_says_how_it_ended(home: Home, state: State, error: str | None) -> None:
    job, other = running(home), running(home, "other")
    leases.finish(home.database, job.job_id, "me", state, error=error, progress=MEASURING)
    finished = home.job(job.job_id)
    assert (finished.state, finished.error, finished.worker, finished.lease_expires_at) == (state, error, None, None)
    assert finished.progress == MEASURING
    assert is_recent(finished.finished_at)
    assert last_event(home, job.job_id) == (state, error or "")
    assert home.job(other.job_id) == other


def test_a_finished_job_keeps_the_progress_that_it_had(home: Home) -> None:
    job = running(home)
    leases.heartbeat(home.database, job.job_id, "me", 600.0, MEASURING)
    leases.finish(home.database, job.job_id, "me", "done")
    assert (home.job(job.job_id).progress, home.job(job.job_id).error) == (MEASURING, None)


def test_a_released_job_is_queued_again_with_what_it_has(home: Home) -> None:
    job = running(home)
    leases.heartbeat(home.database, job.job_id, "me", 600.0, MEASURING)
    leases.release(home.database, job.job_id, "me")
    released = home.job(job.job_id)
    assert (released.state, released.worker, released.lease_expires_at, released.progress) == (
        "queued",
        None,
        None,
        MEASURING,
    )
    assert (released.finished_at, released.error) == (None, None)
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


def test_a_lease_that_has_run_out_puts_its_job_back(home: Home) -> None:
    job = running(home, lease_s=600.0)
    assert leases.requeue_expired(home.database) == []
    assert home.job(job.job_id) == job
    changed(home, job.job_id, lease_expires_at=database_now_s() - 0.01)
    assert leases.requeue_expired(home.database) == [job.job_id]
    queued = home.job(job.job_id)
    assert (queued.state, queued.worker, queued.lease_expires_at) == ("queued", None, None)
    assert (queued.finished_at, queued.error) == (None, None)
    assert last_event(home, job.job_id) == ("requeued", "its worker fell silent before its first run")


@pytest.mark.parametrize("ahead_s", [-3600, 3600])
def test_wrong_clocks_neither_steal_a_running_job_nor_hold_a_lost_one(
    home: Home, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    held, lost = running(home), running(home, lease_s=-0.01)
    right_s = time.time
    monkeypatch.setattr("time.time", lambda: right_s() + ahead_s)
    assert leases.requeue_expired(home.database) == [lost.job_id]
    again = leases.claim(home.database, "other", 600.0)
    assert again is not None
    assert leases.heartbeat(home.database, held.job_id, "me", 600.0, None) is True
    monkeypatch.undo()
    assert leases.requeue_expired(home.database) == []
    assert all(0 < left_s(home, job_id) <= 600 for job_id in (held.job_id, again.job_id))


def test_only_jobs_of_dead_workers_or_without_lease_are_put_back(home: Home) -> None:
    mine, dead, unleased = running(home), running(home, "dead"), running(home, "unleased")
    changed(home, unleased.job_id, lease_expires_at=None)
    workers_asked: list[str] = []

    def is_dead(worker: str) -> bool:
        workers_asked.append(worker)
        return worker == "dead"

    assert sorted(leases.requeue_expired(home.database, is_dead)) == sorted([dead.job_id, unleased.job_id])
    assert set(workers_asked) == {"me", "dead"}
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
    queue.cancel(home.database, job.job_id, actor=ADMIN)
    assert leases.requeue_expired(home.database) == [job.job_id]
    cancelled = home.job(job.job_id)
    assert (cancelled.state, cancelled.error, cancelled.worker) == ("cancelled", None, None)
    assert is_recent(cancelled.finished_at)
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


def test_a_job_fails_with_the_ninth_death_at_one_point(home: Home) -> None:
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
    queue.cancel(home.database, other, actor=ADMIN)
    home.submit()
    job = die(home, MAX_DEATHS_AT_ONE_POINT)
    assert job.state == "queued"
    job = die(home, MAX_DEATHS_AT_ONE_POINT, MEASURING)
    assert job.state == "queued"
    job = die(home, 1)  # still after two of four runs
    assert job.state == "failed"
    assert job.error == "its worker died 9 times after 2 of 4 runs: see the worker's log, then retry"
    queue.retry(home.database, job.job_id, actor=ADMIN)
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
    taken = [leases.claim(home.database, "me", 600.0) for _ in ids]
    assert [job.job_id for job in taken if job] == ids  # of the same moment: by id


#: What another version may have written: a study with a field that this one does not know, and no JSON at all.
UNREADABLE = ['{"name": "of a newer version", "a_new_field": 1}', "{"]


@pytest.mark.parametrize("study_json", UNREADABLE)
def test_an_unreadable_queued_job_is_set_aside_and_the_next_is_claimed(home: Home, study_json: str) -> None:
    first, second = home.submit(), home.submit()
    changed(home, first, study_json=study_json, priority=5)
    set_aside: set[str] = set()
    claimed = leases.claim(home.database, "me", 600.0, set_aside=set_aside)
    assert claimed is not None
    assert (claimed.job_id, set_aside) == (second, {first})
    assert leases.claim(home.database, "me", 600.0, set_aside=set_aside) is None
    submitted, aside = queue.events(home.database, first)
    assert (submitted.kind, aside.kind) == ("submitted", "set aside")
    sentence, _, trace = aside.detail.partition("\n")
    assert sentence.startswith(f"by me: job {first} cannot be read by this Drafthouse (ValidationError: ")
    assert trace.startswith("Traceback (most recent call last)")
    assert [job.job_id for job in queue.jobs(home.database)] == [second]
    (named,) = queue.set_aside(home.database)
    assert (named.job_id, named.name, named.state) == (first, "test study", "queued")
    assert named.reason == sentence.removeprefix("by me: ")
    queue.cancel(home.database, first, actor=ADMIN)
    assert home.event_kinds(first) == ["submitted", "set aside", "cancelled"]


def test_a_job_unreadable_to_workers_is_listed_as_set_aside_by_the_last_of_them(home: Home) -> None:
    job_id = home.submit()
    text = home.job(job_id).study.model_dump_json()
    changed(home, job_id, study_json="{")
    for worker in ("older", "old"):
        assert leases.claim(home.database, worker, 600.0) is None
    changed(home, job_id, study_json=text)
    (named,) = queue.set_aside(home.database)
    assert named.job_id == job_id
    assert named.reason.startswith(f"by old: job {job_id} cannot be read by this Drafthouse")
    assert "Traceback" in named.traceback
    assert leases.claim(home.database, "newer", 600.0) is not None
    assert queue.set_aside(home.database) == []


def test_an_unreadable_running_job_is_put_back_when_its_worker_is_gone(home: Home) -> None:
    first, second = running(home, lease_s=-1.0), running(home, lease_s=-1.0)
    changed(home, first.job_id, study_json="{", progress_json='{"a_new_field": 1}')
    assert sorted(leases.requeue_expired(home.database)) == sorted([first.job_id, second.job_id])
    expected = "its worker fell silent at a point that only another version of Drafthouse can read"
    assert last_event(home, first.job_id) == ("requeued", expected)
    with pytest.raises(UserError, match=f"^job {first.job_id} cannot be read by this Drafthouse"):
        home.job(first.job_id)


def test_queued_jobs_around_an_unreadable_one_can_be_moved(home: Home) -> None:
    ids = [home.submit() for _ in range(3)]
    changed(home, ids[1], study_json="{")
    order.move_up(home.database, ids[2], actor=ADMIN)
    claimed = leases.claim(home.database, "me", 600.0)
    assert claimed is not None
    assert claimed.job_id == ids[2]


def taken(home: Home, worker: str, *, has_gpus: bool = True) -> str | None:
    job = leases.claim(home.database, worker, 600.0, has_gpus=has_gpus)
    return None if job is None else job.job_id


def test_a_study_alone_waits_for_a_quiet_host_and_keeps_it_quiet(home: Home) -> None:
    first, alone, last = home.submit(), home.submit(alone=True), home.submit()
    assert taken(home, "host/1") == first
    assert taken(home, "host/2") is None  # and not the last one, before which the other would never start
    assert taken(home, "other/1") == alone
    leases.release(home.database, alone, "other/1")
    leases.finish(home.database, first, "host/1", "done")
    assert taken(home, "host/2") == alone
    assert taken(home, "host/1") is None
    leases.finish(home.database, alone, "host/2", "done")
    assert taken(home, "host/1") == last


def test_without_gpus_a_study_is_measured_alone_unless_it_says_otherwise(home: Home) -> None:
    first, _ = home.submit(), home.submit(alone=False)
    assert taken(home, "host/1", has_gpus=False) == first
    assert taken(home, "host/2", has_gpus=False) is None
    leases.finish(home.database, first, "host/1", "done")
    beside = [home.submit(alone=False) for _ in range(2)]
    assert None not in [taken(home, f"host/{slot}", has_gpus=False) for slot in (1, 2, 3)]
    assert {home.job(job_id).state for job_id in beside} == {"running"}


def test_a_study_alone_whose_worker_died_comes_before_anything_else(home: Home) -> None:
    alone, later = home.submit(alone=True), home.submit()
    assert taken(home, "host/1") == alone
    assert taken(home, "host/2") is None
    leases.requeue_expired(home.database, lambda worker: worker == "host/1")
    assert taken(home, "host/2") == alone
    assert taken(home, "host/1") is None
    leases.finish(home.database, alone, "host/2", "done")
    assert taken(home, "host/1") == later


def test_who_starts_no_engines_gets_studies_of_servers_that_run_already(home: Home) -> None:
    server = {"name": "server", "engine": "endpoint", "server": {"base_url": "http://127.0.0.1:8000"}}
    first, of_a_server = home.submit(alone=False), home.submit(arms=[server], alone=False)
    taken_jobs = [leases.claim(home.database, "host/1", 600.0, starts_engines=False) for _ in range(2)]
    assert [job and job.job_id for job in taken_jobs] == [of_a_server, None]
    assert taken(home, "host/2") == first
