"""The blocks of a shared job: each is one worker's until its lease ends, the worker dies, or the block is done."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from jobs import queue
from jobs.fleet import blocks, leases
from jobs.fleet.leases import LeaseLost
from jobs.table import Job
from tests.actors import ADMIN
from tests.workers.homes import Home

OWN, HELPER = "host/1", "host/2"


def shared(home: Home) -> Job:
    """A running job that may be shared, of three blocks."""
    home.submit(spread=True, repeats=3)
    job = leases.claim(home.database, OWN, 600.0)
    assert job is not None
    return job


def taken(home: Home, job: Job, worker: str, lease_s: float = 600.0, dead: str = "") -> int | None:
    contents: list[str | None] = [None] * 3
    return blocks.claim_block(home.database, job, worker, lease_s, contents=contents, is_dead=lambda name: name == dead)


def test_each_block_is_one_workers(home: Home) -> None:
    job = shared(home)
    assert [taken(home, job, worker) for worker in (OWN, HELPER, OWN, HELPER)] == [0, 1, 2, None]
    blocks.finish_block(home.database, job, 1, HELPER)
    assert [block.is_done for block in blocks.handed_out(home.database, job)] == [False, True, False]
    assert taken(home, job, HELPER, dead=HELPER) is None  # it is done, whoever died


def test_a_job_names_its_helper_while_the_helper_owns_a_block(home: Home) -> None:
    job = shared(home)
    assert [taken(home, job, worker) for worker in (OWN, HELPER)] == [0, 1]
    at_work = blocks.jobs_at_work(home.database)
    assert {worker: at_work[worker].job_id for worker in at_work} == {OWN: job.job_id, HELPER: job.job_id}
    blocks.finish_block(home.database, job, 1, HELPER)
    assert set(blocks.jobs_at_work(home.database)) == {OWN}


def test_a_block_is_taken_over_when_its_worker_dies_or_stops(home: Home) -> None:
    job = shared(home)
    assert [taken(home, job, HELPER) for _ in range(3)] == [0, 1, 2]
    assert taken(home, job, OWN) is None
    assert taken(home, job, OWN, lease_s=-1.0, dead=HELPER) == 0
    assert taken(home, job, "host/3") == 0
    blocks.release_blocks(home.database, job, HELPER)
    assert [taken(home, job, OWN) for _ in range(3)] == [1, 2, None]
    with pytest.raises(LeaseLost, match="no longer host/2's"):
        blocks.finish_block(home.database, job, 1, HELPER)
    with pytest.raises(LeaseLost, match="no longer host/2's"):
        blocks.helping(home.database, job, HELPER, 600.0)


def test_a_helper_learns_that_the_job_is_cancelled_ended_or_retried(home: Home) -> None:
    job = shared(home)
    assert taken(home, job, HELPER) == 0
    assert blocks.helping(home.database, job, HELPER, 600.0)
    queue.cancel(home.database, job.job_id, actor=ADMIN)
    assert not blocks.helping(home.database, job, HELPER, 600.0)
    assert taken(home, job, OWN) is None
    leases.finish(home.database, job.job_id, OWN, "cancelled")
    with pytest.raises(LeaseLost, match="has ended"):
        blocks.helping(home.database, job, HELPER, 600.0)
    queue.retry(home.database, job.job_id, actor=ADMIN)
    with pytest.raises(LeaseLost, match="has ended"):
        blocks.helping(home.database, job, HELPER, 600.0)
    again = leases.claim(home.database, OWN, 600.0)
    assert again is not None
    assert taken(home, again, HELPER) == 0  # of this attempt
    assert taken(home, job, OWN) is None


def test_what_a_block_holds_is_decided_once_also_for_later_attempts(home: Home) -> None:
    job = shared(home)

    def take(job: Job, *contents: str | None) -> int | None:
        return blocks.claim_block(home.database, job, OWN, 600.0, contents=contents, is_dead=lambda _: False)

    assert [take(job, "a"), take(job, "a", "b")] == [0, 1]
    assert take(job, "a", "c") is None  # somebody else has handed out that one
    blocks.finish_block(home.database, job, 0, OWN)
    leases.finish(home.database, job.job_id, OWN, "failed", error="the disk was full")
    queue.retry(home.database, job.job_id, actor=ADMIN)
    again = leases.claim(home.database, OWN, 600.0)
    assert again is not None
    assert blocks.handed_out(home.database, again) == [
        blocks.Block("a", is_done=False, host="host"),
        blocks.Block("b", is_done=False, host="host"),
    ]
    assert take(again, "a", "b") == 0
    blocks.finish_block(home.database, again, 0, OWN)
    assert blocks.handed_out(home.database, again) == [
        blocks.Block("a", is_done=True, host="host"),
        blocks.Block("b", is_done=False, host="host"),
    ]


def test_only_workers_of_its_host_share_a_spread_job(home: Home) -> None:
    home.submit(repeats=3)
    assert leases.claim(home.database, "host/3", 600.0) is not None
    job = shared(home)
    found = {worker: [each.job_id for each in blocks.shared_jobs(home.database, worker)] for worker in (OWN, HELPER)}
    assert found == {OWN: [], HELPER: [job.job_id]}
    assert blocks.shared_jobs(home.database, "elsewhere/1") == []


LIKE = {"hardware": "NVIDIA H200", "engine vllm": "0.32.0"}
FAR = "far/1"


def over_hosts(home: Home, **changes: Any) -> Job:
    """A running job of three blocks that hosts may share."""
    home.submit(**{"spread": "hosts", "repeats": 3, "alone": False, **changes})
    job = leases.claim(home.database, OWN, 600.0)
    assert job is not None
    return job


def taken_by_like(home: Home, job: Job, worker: str, likeness: blocks.Likeness | None, lease_s: float = 600.0) -> Any:
    """The number of the block, or why there is none."""
    contents: list[str | None] = [None] * 3
    parts: dict[str, Any] = {"contents": contents, "is_dead": lambda _: False, "likeness": likeness}
    try:
        return blocks.claim_block(home.database, job, worker, lease_s, **parts)
    except blocks.UnlikeHost as unlike:
        return str(unlike)


def test_other_hosts_take_blocks_once_the_jobs_own_host_has_begun(home: Home) -> None:
    job = over_hosts(home)
    assert [each.job_id for each in blocks.shared_jobs(home.database, FAR)] == [job.job_id]
    assert taken_by_like(home, job, FAR, LIKE) is None
    assert [taken_by_like(home, job, worker, LIKE) for worker in (OWN, FAR, FAR, FAR)] == [0, 1, 2, None]
    assert [block.host for block in blocks.handed_out(home.database, job)] == ["host", "far", "far"]
    assert home.event_kinds(job.job_id) == ["submitted", "claimed", "helps"]


@pytest.mark.parametrize(
    ("likeness", "why"),
    [
        ({**LIKE, "hardware": "NVIDIA A100"}, "far is not like host: hardware NVIDIA A100 instead of NVIDIA H200"),
        ({**LIKE, "engine vllm": "0.33.0"}, "far is not like host: engine vllm 0.33.0 instead of 0.32.0"),
        ({**LIKE, "weights of m": "f00"}, "far is not like host: weights of m f00 instead of None"),
        (None, "far or host does not know what it measures with"),
    ],
)
def test_no_block_goes_to_a_host_with_something_else(home: Home, likeness: blocks.Likeness | None, why: str) -> None:
    job = over_hosts(home)
    assert taken_by_like(home, job, OWN, LIKE) == 0
    assert taken_by_like(home, job, FAR, likeness) == why
    blocks.finish_block(home.database, job, 0, OWN)
    leases.release(home.database, job.job_id, OWN)
    moved = leases.claim(home.database, FAR, 600.0)  # also if the job itself goes there
    assert moved is not None
    assert taken_by_like(home, moved, FAR, likeness) == why


def test_a_half_measured_block_of_a_lost_host_binds_nobody(home: Home) -> None:
    job = over_hosts(home)
    assert taken_by_like(home, job, OWN, LIKE, lease_s=-1.0) == 0
    leases.release(home.database, job.job_id, OWN)
    moved = leases.claim(home.database, FAR, 600.0)
    assert moved is not None
    assert taken_by_like(home, moved, FAR, {"hardware": "another"}) == 0
    assert "is not like" in taken_by_like(home, moved, OWN, LIKE)


def test_a_host_does_not_help_beside_what_is_measured_alone(home: Home) -> None:
    job = over_hosts(home)
    assert taken_by_like(home, job, OWN, LIKE) == 0
    alone = home.submit(alone=True)
    assert leases.claim(home.database, "far/2", 600.0) is not None
    assert taken_by_like(home, job, FAR, LIKE) is None
    leases.finish(home.database, alone, "far/2", "done")
    assert taken_by_like(home, job, FAR, LIKE) == 1
    home.submit(alone=True)
    assert leases.claim(home.database, "far/2", 600.0) is None  # it waits for the block


def another_waits(home: Home, job: Job, **changes: Any) -> bool:
    return leases.another_waits(home.database, job, "H200", **{"has_gpus": True, **changes})


def test_a_spread_job_makes_room_for_others_of_its_priority_that_fit(home: Home) -> None:
    job = shared(home)
    assert not another_waits(home, job)
    waiting = home.submit()
    assert another_waits(home, job)
    assert not another_waits(home, job, set_aside={waiting})
    assert not another_waits(home, dataclasses.replace(job, priority=1))
    assert not another_waits(home, job, has_gpus=False)  # it is alone there
    queue.cancel(home.database, waiting, actor=ADMIN)
    home.submit(alone=True)
    home.submit()
    assert not another_waits(home, job)  # the other one waits for it


def test_a_study_alone_waits_for_a_block_of_another_job(home: Home) -> None:
    job = shared(home)
    assert taken(home, job, HELPER) == 0
    leases.release(home.database, job.job_id, OWN, "makes room for another study")
    assert set(blocks.jobs_at_work(home.database)) == {HELPER}
    alone = home.submit(alone=True)
    assert leases.claim(home.database, OWN, 600.0, except_jobs={job.job_id}) is None
    elsewhere = leases.claim(home.database, "other/1", 600.0, except_jobs={job.job_id})
    assert elsewhere is not None
    leases.release(home.database, alone, "other/1")
    blocks.finish_block(home.database, job, 0, HELPER)
    mine = leases.claim(home.database, OWN, 600.0, except_jobs={job.job_id})
    assert mine is not None
    assert mine.job_id == alone


def test_a_job_that_is_given_back_while_somebody_cancels_it_is_cancelled(home: Home) -> None:
    job = shared(home)
    queue.cancel(home.database, job.job_id, actor=ADMIN)
    leases.release(home.database, job.job_id, OWN)
    assert (home.job(job.job_id).state, home.event_kinds(job.job_id)[-1]) == ("cancelled", "cancelled")
    assert home.job(job.job_id).finished_at is not None
