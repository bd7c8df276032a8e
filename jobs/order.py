"""The order of the queue: which worker may take which job, when each job will start, and how users change the order.

Higher priority first, then the older job. A job that names hardware waits for a worker that has it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from jobs.table import Job, add_event, get_job, readable
from jobs.worker_registry import WorkerInfo
from lab import access
from lab.access import Actor, Change
from lab.errors import StudyError, UserError
from lab.study import Study
from lab.study.plan import estimate_s, plan
from warehouse.app_db import audit
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import jobs as jobs_table
from warehouse.app_db.schema import workers as workers_table

#: The largest priority that a user can give, negative or positive; fits into an INTEGER.
MAX_PRIORITY = 1_000_000


def has_hardware(hardware: str, wanted: str | None) -> bool:
    """Return whether a worker with this hardware may take a job that requires `wanted`, ignoring case."""
    return wanted is None or wanted.lower() in hardware.lower()


def check_hardware(engine: sa.Engine, study: Study) -> None:
    """Raise StudyError for hardware that no known worker has; without any known worker everything is allowed."""
    if study.hardware is None:
        return
    with reading(engine).connect() as connection:
        kinds = connection.scalars(sa.select(workers_table.c.hardware).distinct()).all()
    if kinds and not any(has_hardware(hardware, study.hardware) for hardware in kinds):
        names = ", ".join(sorted(kinds))
        raise StudyError(
            [("hardware", f"no worker has {study.hardware!r}; workers have {names}. Leave hardware out to allow any")]
        )


def queue_key(job: Job) -> tuple[int, datetime, str]:
    """Sort key of the order in which queued jobs are taken."""
    return (-job.priority, job.submitted_at, job.job_id)


def assumed_s(study: Study) -> float:
    """Estimate how long a study takes, in seconds, from its plan alone."""
    planned_s = estimate_s(plan(study))
    return planned_s if study.budget_s is None else min(planned_s, study.budget_s)


def estimated_starts(
    jobs: Sequence[Job],
    workers: Sequence[WorkerInfo],
    now: datetime | None = None,
    takes_s: Callable[[Study], float] = assumed_s,
) -> Mapping[str, datetime | None]:
    """Estimate when each queued job will start, by its id; None if no present worker may take it.

    A worker that becomes free takes the first job that its hardware allows; the simulation applies the same rule.
    `takes_s` returns the seconds of a study; a running job takes as long as its own progress says.
    """
    now = now or datetime.now(UTC)
    running = {job.worker: job for job in jobs if job.state == "running"}
    present = [worker for worker in workers if not worker.is_away(now)]
    free = [(_left_s(running.get(worker.worker), takes_s), worker.worker, worker.hardware) for worker in present]
    heapq.heapify(free)
    waiting = sorted((job for job in jobs if job.state == "queued"), key=queue_key)
    starts: dict[str, datetime | None] = {job.job_id: None for job in waiting}
    while free and waiting:
        free_s, name, hardware = heapq.heappop(free)
        taken = next((job for job in waiting if has_hardware(hardware, job.study.hardware)), None)
        if taken is not None:
            waiting.remove(taken)
            starts[taken.job_id] = now + timedelta(seconds=free_s)
            heapq.heappush(free, (free_s + takes_s(taken.study), name, hardware))
    return starts


def _left_s(job: Job | None, takes_s: Callable[[Study], float]) -> float:
    if job is None:
        return 0.0
    left_s = job.progress.remaining_s if job.progress is not None else None
    return takes_s(job.study) if left_s is None else left_s


def reprioritise(engine: sa.Engine, job_id: str, priority: int, *, actor: Actor) -> None:
    """Give a queued job another priority. Raises UserError if it is not queued (any more), and AccessError."""
    access.require(actor, Change.ORDER)
    if abs(priority) > MAX_PRIORITY:
        raise UserError(f"priority {priority} is out of range: use -{MAX_PRIORITY} to {MAX_PRIORITY}")
    with engine.begin() as connection:
        _queued_job(connection, job_id)
        _set_priority(connection, job_id, priority, actor)
        audit.record(connection, actor, Change.ORDER, job_id, priority=priority)


def move_up(engine: sa.Engine, job_id: str, *, actor: Actor) -> None:
    """Move a queued job before its predecessor; the first one stays first. Raises UserError like `reprioritise`."""
    _move(engine, job_id, -1, actor)


def move_down(engine: sa.Engine, job_id: str, *, actor: Actor) -> None:
    """Move a queued job behind its successor; the last one stays last. Raises UserError like `reprioritise`."""
    _move(engine, job_id, 1, actor)


def _move(engine: sa.Engine, job_id: str, step: int, actor: Actor) -> None:
    access.require(actor, Change.ORDER)
    with engine.begin() as connection:
        _queued_job(connection, job_id)
        rows = connection.execute(sa.select(jobs_table).where(jobs_table.c.state == "queued").with_for_update())
        order = sorted(readable(rows.mappings())[0], key=queue_key)
        place = [job.job_id for job in order].index(job_id)
        other = place + step
        if 0 <= other < len(order):
            order[place], order[other] = order[other], order[place]
            for moved, priority in priorities(order).items():
                _set_priority(connection, moved, priority, actor)
            audit.record(connection, actor, Change.ORDER, job_id, places=step)


def priorities(order: Sequence[Job]) -> dict[str, int]:
    """Return the new priorities that give the jobs this order, changing as few as possible, from the last job up."""
    changed: dict[str, int] = {}
    for place in range(len(order) - 2, -1, -1):
        job, following = order[place], order[place + 1]
        next_priority = changed.get(following.job_id, following.priority)
        is_older = (job.submitted_at, job.job_id) < (following.submitted_at, following.job_id)
        least = next_priority if is_older else next_priority + 1
        if job.priority < least:
            changed[job.job_id] = least
    return changed


def _queued_job(connection: sa.Connection, job_id: str) -> None:
    job = get_job(connection, job_id, lock=True)
    if job.state != "queued":
        raise UserError(f"job {job_id} is {job.state}: only a queued job can be moved")


def _set_priority(connection: sa.Connection, job_id: str, priority: int, actor: Actor) -> None:
    connection.execute(jobs_table.update().where(jobs_table.c.job_id == job_id).values(priority=priority))
    add_event(connection, job_id, "priority", str(priority), actor.name)
