"""The blocks of a job that several workers share: which worker holds which block, and until when.

A block is the repeats of all arms that belong together, so that what is compared was measured on one slot. The job's
own worker and other workers claim blocks one by one; the bundles say which of a block's runs are left. Those others are
of its host or, for a study that is spread over hosts, of any like host: the first one to claim a block stores
what it measures with (its `Likeness`), and no block goes to a worker with something else.
"""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa

from jobs.fleet.leases import LeaseLost, has_room, host_of
from jobs.table import ACTIVE, Job, add_event, find_row, readable
from lab.errors import UserError
from warehouse.app_db.clock import database_now_s, now_and_behind_s
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import job_blocks, job_events, jobs

if TYPE_CHECKING:
    from lab.schedule import Content

IsDead = Callable[[str], bool]
#: An arbitrary constant: PostgreSQL's lock on the blocks of a job is this plus a checksum of the job's id.
_BLOCKS_OF_A_JOB = 7_205_759_412_382_728_192
#: What a worker measures with, by what it is called: hardware, versions of engines, digests of weights and datasets.
Likeness = Mapping[str, str]


class UnlikeHost(UserError):  # noqa: N818 - an event: other hosts go on with the study
    """The blocks of a study were measured on a host that is not like this one."""


@dataclass(frozen=True)
class Block:
    """A block that was handed out. `is_done`: each of its runs has a bundle in this attempt of the job. `host`: of the
    worker that held it last.
    """

    content: Content
    is_done: bool
    host: str


def handed_out(engine: sa.Engine, job: Job) -> list[Block]:
    """Return the blocks in order, including those of earlier attempts whose runs count: their contents stay fixed."""
    query = sa.select(job_blocks).where(_counting(job)).order_by(job_blocks.c.block, job_blocks.c.attempt)
    with reading(engine).connect() as connection:
        rows = connection.execute(query).mappings().all()
    return [
        Block(row["content"], bool(row["is_done"]) and row["attempt"] == job.attempt, host_of(row["worker"]))
        for row in {row["block"]: row for row in rows}.values()  # of each block, its last attempt
    ]


def claim_block(
    engine: sa.Engine,
    job: Job,
    worker: str,
    lease_s: float,
    *,
    contents: Sequence[Content],
    is_dead: IsDead,
    likeness: Likeness | None = None,
    has_gpus: bool = True,
) -> int | None:
    """Claim the first free block with these contents, from 0; None if all are taken or done.

    A block whose lease has expired or whose worker `is_dead` is taken over. `contents` are those of the blocks that
    were handed out, and perhaps of one more. Also returns None if that last block has been handed out meanwhile.

    `likeness` counts for a job that is spread over hosts; None: unknown, and then it stays on one host. Its own host
    begins, and another one helps only if neither job nor what it measures itself is to be alone. Raises UnlikeHost.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":  # so that others who claim wait; a helping host locks no job
            number = zlib.crc32(job.job_id.encode())
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_BLOCKS_OF_A_JOB + number)))
        row = find_row(connection, job.job_id)
        if row is None or row["state"] != "running" or row["tries"] != job.attempt or row["cancel_requested"]:
            return None
        is_free = job_blocks.c.lease_expires_at <= database_now_s()
        query = sa.select(job_blocks, is_free.label("is_free")).where(_counting(job)).order_by(job_blocks.c.attempt)
        counting = connection.execute(query).mappings().all()
        lease: dict[str, object] = {"worker": worker, "lease_expires_at": database_now_s() + lease_s}
        if job.over_hosts:
            _refuse_unlike(counting, likeness, host_of(worker))
            lease["likeness"] = None if likeness is None else json.dumps(likeness, sort_keys=True)
        helps = row["host"] != host_of(worker)
        if helps and not (counting and has_room(connection, worker, job, has_gpus=has_gpus)):
            return None
        known = {held["block"]: held for held in counting if held["attempt"] == job.attempt}
        for block, content in enumerate(contents):
            held = known.get(block)
            if held is None:
                key = {"job_id": job.job_id, "attempt": job.attempt, "block": block}
                connection.execute(job_blocks.insert().values(key | lease | {"is_done": False, "content": content}))
            elif held["content"] == content and not held["is_done"] and (held["is_free"] or is_dead(held["worker"])):
                connection.execute(job_blocks.update().where(_of(job), job_blocks.c.block == block).values(lease))
            else:
                continue
            if helps:
                _record_help(connection, job, worker)
            return block
    return None


def _refuse_unlike(counting: Iterable[sa.RowMapping], likeness: Likeness | None, host: str) -> None:
    """Raise UnlikeHost if what counts, or may come to count, was measured with something else, or nobody knows."""
    for held in counting:
        is_own = host_of(held["worker"]) == host
        if held["is_free"] and not held["is_done"] and not is_own:
            continue  # it will be measured anew
        if held["likeness"] is None or likeness is None:
            if not is_own:
                raise UnlikeHost(f"{host} or {host_of(held['worker'])} does not know what it measures with")
        elif unlike := _differing(likeness, json.loads(held["likeness"])):
            raise UnlikeHost(f"{host} is not like {host_of(held['worker'])}: {unlike}")


def _differing(here: Likeness, there: Likeness) -> str:
    """Say what differs first; empty if nothing does."""
    names = [name for name in sorted(here.keys() | there.keys()) if here.get(name) != there.get(name)]
    return "" if not names else f"{names[0]} {here.get(names[0])} instead of {there.get(names[0])}"


def _record_help(connection: sa.Connection, job: Job, worker: str) -> None:
    """Record once for each host that it helps, which lets it record bundles of the job, whoever has its blocks then."""
    host = f"{host_of(worker)}/"
    helps = sa.select(job_events.c.id).where(job_events.c.job_id == job.job_id, job_events.c.kind == "helps")
    if connection.execute(helps.where(job_events.c.detail.startswith(host, autoescape=True)).limit(1)).first() is None:
        add_event(connection, job.job_id, "helps", worker)


def reopen_block(engine: sa.Engine, job: Job, block: int, worker: str) -> None:
    """Let somebody measure a finished block again whose bundles are lost, in the name of the job's own worker."""
    with engine.begin() as connection:
        done = job_blocks.update().where(_of(job), job_blocks.c.block == block, job_blocks.c.is_done)
        connection.execute(done.values(worker=worker, lease_expires_at=0.0, is_done=False))


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
    """Return the jobs that other workers are running and share with this one, in the order of their starts: those of
    its host, then those of other hosts. Their clocks are this host's.
    """
    is_here = jobs.c.host == host_of(worker)
    query = sa.select(jobs).where(jobs.c.state == "running", jobs.c.worker != worker, is_here | jobs.c.over_hosts)
    with reading(engine).connect() as connection:
        rows = connection.execute(query.order_by(is_here.desc(), jobs.c.started_at)).mappings()
        shared = [job for job in readable(rows)[0] if job.study.spread]
        behind_s = now_and_behind_s(connection)[1] if shared else None
    return [dataclasses.replace(job, clock_behind_s=behind_s) for job in shared]


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


def _counting(job: Job) -> sa.ColumnElement[bool]:
    """Return the blocks of this attempt, and of earlier ones whose runs count."""
    return (job_blocks.c.job_id == job.job_id) & job_blocks.c.attempt.between(job.reuse_from_attempt, job.attempt)


def _own(job: Job, worker: str) -> sa.ColumnElement[bool]:
    return _of(job) & (job_blocks.c.worker == worker) & ~job_blocks.c.is_done
