"""The blocks of a job that a host's workers share: which worker holds which block, and until when.

A block is the repeats of all arms that belong together, so that what is compared was measured on one slot. The job's
own worker and other workers of its host claim blocks one by one; the bundles say which of a block's runs are left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from jobs.fleet.leases import LeaseLost
from jobs.table import ACTIVE, Job, find_row, readable
from warehouse.app_db.clock import database_now_s
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import job_blocks, jobs

if TYPE_CHECKING:
    from lab.schedule import Content

IsDead = Callable[[str], bool]


@dataclass(frozen=True)
class Block:
    """A block that was handed out. `is_done`: each of its runs has a bundle in this attempt of the job."""

    content: Content
    is_done: bool


def handed_out(engine: sa.Engine, job: Job) -> list[Block]:
    """Return the blocks in order, including those of earlier attempts whose runs count: their contents stay fixed."""
    counting = (job_blocks.c.job_id == job.job_id) & job_blocks.c.attempt.between(job.reuse_from_attempt, job.attempt)
    query = sa.select(job_blocks).where(counting).order_by(job_blocks.c.block, job_blocks.c.attempt)
    with reading(engine).connect() as connection:
        rows = connection.execute(query).mappings().all()
    return [
        Block(row["content"], bool(row["is_done"]) and row["attempt"] == job.attempt)
        for row in {row["block"]: row for row in rows}.values()  # of each block, its last attempt
    ]


def claim_block(
    engine: sa.Engine, job: Job, worker: str, lease_s: float, *, contents: Sequence[Content], is_dead: IsDead
) -> int | None:
    """Claim the first free block with these contents, from 0; None if all are taken or done.

    A block whose lease has expired or whose worker `is_dead` is taken over. `contents` are those of the blocks that
    were handed out, and perhaps of one more. Also returns None if that last block has been handed out meanwhile.
    """
    with engine.begin() as connection:
        row = find_row(connection, job.job_id, lock=True)  # so that others who claim wait
        if row is None or row["state"] != "running" or row["tries"] != job.attempt or row["cancel_requested"]:
            return None
        is_free = job_blocks.c.lease_expires_at <= database_now_s()
        query = sa.select(job_blocks, is_free.label("is_free")).where(_of(job))
        known = {held["block"]: held for held in connection.execute(query).mappings()}
        lease = {"worker": worker, "lease_expires_at": database_now_s() + lease_s}
        for block, content in enumerate(contents):
            held = known.get(block)
            if held is None:
                key = {"job_id": job.job_id, "attempt": job.attempt, "block": block}
                connection.execute(job_blocks.insert().values(key | lease | {"is_done": False, "content": content}))
                return block
            is_same = held["content"] == content
            if is_same and not held["is_done"] and (held["is_free"] or is_dead(held["worker"])):
                connection.execute(job_blocks.update().where(_of(job), job_blocks.c.block == block).values(lease))
                return block
    return None


def renew_blocks(engine: sa.Engine, job: Job, worker: str, lease_s: float) -> int:
    """Renew the leases of the worker's unfinished blocks. Return their number."""
    with engine.begin() as connection:
        lease = {"lease_expires_at": database_now_s() + lease_s}
        return connection.execute(job_blocks.update().where(_own(job, worker)).values(lease)).rowcount


def helping(engine: sa.Engine, job: Job, worker: str, lease_s: float) -> bool:
    """Renew the lease of the block with which this worker helps. Return False if the user asked to cancel the job.

    Raises LeaseLost if the block now belongs to another worker, or if the job has ended.
    """
    if renew_blocks(engine, job, worker, lease_s) == 0:
        raise LeaseLost(f"a block of job {job.job_id} is no longer {worker}'s")
    with reading(engine).connect() as connection:
        row = find_row(connection, job.job_id)
    if row is None or row["tries"] != job.attempt or row["state"] not in ("running", "queued"):
        raise LeaseLost(f"job {job.job_id} has ended")
    return not row["cancel_requested"]


def finish_block(engine: sa.Engine, job: Job, block: int, worker: str) -> None:
    """Record that every run of the block has a bundle. May be repeated. Raises LeaseLost."""
    with engine.begin() as connection:
        mine = job_blocks.update().where(_of(job), job_blocks.c.worker == worker, job_blocks.c.block == block)
        if connection.execute(mine.values(is_done=True)).rowcount != 1:
            raise LeaseLost(f"block {block} of job {job.job_id} is no longer {worker}'s")


def release_blocks(engine: sa.Engine, job: Job, worker: str) -> None:
    """Release the worker's unfinished blocks for others."""
    with engine.begin() as connection:
        connection.execute(job_blocks.update().where(_own(job, worker)).values(lease_expires_at=0.0))


def shared_jobs(engine: sa.Engine, worker: str) -> list[Job]:
    """Return the shared jobs that other workers of this host are running, in the order of their starts."""
    query = sa.select(jobs).where(jobs.c.state == "running", jobs.c.worker != worker).order_by(jobs.c.started_at)
    with reading(engine).connect() as connection:
        running = readable(connection.execute(query).mappings())[0]
    host = worker.partition("/")[0]
    return [job for job in running if job.study.spread and (job.worker or "").partition("/")[0] == host]


def jobs_at_work(engine: sa.Engine) -> dict[str, Job]:
    """Return the job that each worker has claimed, or helps with, by the worker's name."""
    at_work = sa.select(job_blocks.c.worker, job_blocks.c.job_id).join(jobs, jobs.c.job_id == job_blocks.c.job_id)
    at_work = at_work.where(~job_blocks.c.is_done, job_blocks.c.lease_expires_at > database_now_s())
    at_work = at_work.where(jobs.c.state.in_(ACTIVE), jobs.c.tries == job_blocks.c.attempt)
    with reading(engine).connect() as connection:
        helping = connection.execute(at_work).all()
        ids = {row.job_id for row in helping}  # also jobs that wait for another worker of their own
        rows = connection.execute(sa.select(jobs).where((jobs.c.state == "running") | jobs.c.job_id.in_(ids)))
        running = {job.job_id: job for job in readable(rows.mappings())[0]}
        helped = {row.worker: running[row.job_id] for row in helping if row.job_id in running}
    return helped | {job.worker: job for job in running.values() if job.worker}


def _of(job: Job) -> sa.ColumnElement[bool]:
    return (job_blocks.c.job_id == job.job_id) & (job_blocks.c.attempt == job.attempt)


def _own(job: Job, worker: str) -> sa.ColumnElement[bool]:
    return _of(job) & (job_blocks.c.worker == worker) & ~job_blocks.c.is_done
