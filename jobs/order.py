"""The order of the queue: which worker may take which job, when each job will start, and how users change the order.

Higher priority first, then the submitters in turn (`jobs.turns`). A job that names hardware waits for a worker that has
it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from jobs.fleet.worker_registry import WorkerInfo, has_hardware
from jobs.table import MAX_PRIORITY, Job, UnreadableJobError, add_event, check_priority, get_job
from jobs.turns import Turns, Waiting, in_turn
from lab import roles
from lab.errors import UserError
from lab.estimate import History, estimate
from lab.roles import Actor, Change
from lab.study import Study
from lab.study.plan import plan, repeats_of_a_launch
from warehouse.app_db import audit
from warehouse.app_db.schema import jobs as jobs_table

_OF_ORDER = (jobs_table.c.job_id, jobs_table.c.priority, jobs_table.c.submitted_at, jobs_table.c.submitted_by)
#: Ten years: a later start, of a study of any length, is shown as this one.
_LATEST_S = 315_360_000


def assumed_s(study: Study) -> float:
    """Estimate how long a study takes, in seconds, from its plan alone."""
    planned_s = estimate(plan(study), History()).seconds
    return planned_s if study.budget_s is None else min(planned_s, study.budget_s)


def estimated_starts(
    jobs: Sequence[Job],
    workers: Sequence[WorkerInfo],
    now: datetime | None = None,
    takes_s: Callable[[Study], float] = assumed_s,
) -> Mapping[str, datetime | None]:
    """Estimate when each queued job will start, by its id; None if no present worker may take it.

    A free worker takes the first job that its hardware and engines allow; the simulation applies the same
    rule. A spread study makes room for others after each block, and its rest is queued again.
    `takes_s` returns the seconds of a study; a running job's progress predicts its remaining time.
    """
    now = now or datetime.now(UTC)
    running = {job.worker: job for job in jobs if job.state == "running"}
    helped = {job.job_id: job.study for job in running.values() if job.study.spread}
    waiting = [job for job in jobs if job.state == "queued"]
    starts: dict[str, datetime | None] = {job.job_id: None for job in waiting}
    turns, slots, left_s = Turns(waiting), dict[str, _Slot](), dict[str, float]()
    free: list[tuple[float, str]] = []
    for worker in workers:
        if worker.is_away(now):
            continue
        job, free_s = running.get(worker.worker), 0.0
        slot = slots[worker.worker] = _Slot(worker, is_free=job is None)
        if job is not None:
            left_s[job.job_id] = _left_s(job, takes_s)
            free_s = slot.measure(job, left_s, takes_s)
        elif worker.job_id in helped:
            free_s = _block_s(helped[worker.job_id], takes_s)
        heapq.heappush(free, (free_s, worker.worker))
    while free and turns:
        free_s, name = heapq.heappop(free)
        slot = slots[name]
        if slot.job is not None and not left_s[slot.job.job_id]:
            slot.job = None
        unfinished = slot.job
        others = [other.job.submitted_by for other in slots.values() if other.job is not None and other is not slot]
        taken = turns.take(others, slot.may_take)
        if taken is not None and unfinished is not None:
            turns.add(unfinished)
        slot.job = taken or unfinished
        if slot.job is None:
            continue
        if starts.get(slot.job.job_id, now) is None:
            starts[slot.job.job_id] = now + timedelta(seconds=min(free_s, _LATEST_S))
        heapq.heappush(free, (free_s + slot.measure(slot.job, left_s, takes_s), name))
    return starts


class _Slot:
    """A worker of the simulation, and the job that it measures."""

    def __init__(self, worker: WorkerInfo, *, is_free: bool) -> None:
        self._worker, self._starts_engines = worker, not (worker.waits_for and is_free)
        self.job: Job | None = None

    def measure(self, job: Job, left_s: dict[str, float], takes_s: Callable[[Study], float]) -> float:
        """Begin the job; return the seconds until this slot could take another one. `left_s` is the rest."""
        alone = not self._worker.gpus if job.study.alone is None else job.study.alone
        seconds = left_s[job.job_id] if job.job_id in left_s else takes_s(job.study)
        step_s = min(seconds, _block_s(job.study, takes_s)) if job.study.spread and not alone else seconds
        self.job, left_s[job.job_id] = job, seconds - step_s
        return step_s

    def may_take(self, job: Job) -> bool:
        """Return whether the worker fits the job, and its own job, between two blocks, would make room for it."""
        if self.job is not None and job.priority < self.job.priority:
            return False
        starts = self._starts_engines or not job.study.starts_engines
        is_able = has_hardware(self._worker.hardware, job.study.hardware) and self._worker.has_engines(job.study)
        return starts and is_able and not self._worker.lacks(job)


def _block_s(study: Study, takes_s: Callable[[Study], float]) -> float:
    """Return the seconds of a repeat of all arms, or of all repeats that share an engine start."""
    each = repeats_of_a_launch(study.order, study.repeats_per_launch, study.repeats)
    return takes_s(study) / math.ceil(study.repeats / each)


def _left_s(job: Job | None, takes_s: Callable[[Study], float]) -> float:
    if job is None:
        return 0.0
    left_s = job.progress.remaining_s if job.progress is not None else None
    return takes_s(job.study) if left_s is None else left_s


def reprioritise(engine: sa.Engine, job_id: str, priority: int, *, actor: Actor) -> None:
    """Give a queued job another priority. Raises UserError if it is not queued (any more), and AccessError."""
    roles.require(actor, Change.ORDER)
    check_priority(priority)
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
    roles.require(actor, Change.ORDER)
    with engine.begin() as connection:
        _queued_job(connection, job_id)
        running = connection.scalars(sa.select(jobs_table.c.submitted_by).where(jobs_table.c.state == "running")).all()
        rows = connection.execute(sa.select(*_OF_ORDER).where(jobs_table.c.state == "queued").with_for_update())
        order = in_turn(rows, running)
        index = [job.job_id for job in order].index(job_id)
        other = index + step
        while 0 <= other < len(order) and not _is_readable(connection, order[other].job_id):
            other += step  # no page shows it
        if 0 <= other < len(order):
            order.insert(other, order.pop(index))
            for moved, priority in priorities(order).items():
                _set_priority(connection, moved, priority, actor)
            audit.record(connection, actor, Change.ORDER, job_id, places=step)


def _is_readable(connection: sa.Connection, job_id: str) -> bool:
    try:
        get_job(connection, job_id)
    except UnreadableJobError:
        return False
    return True


def priorities(order: Sequence[Waiting]) -> dict[str, int]:
    """Return new priorities that give the jobs this order, from the last job up, with none above the highest.

    Only jobs of one submitter get equal priority, the older first: the submitters' order changes as jobs start and end.
    """
    least: list[int] = []
    for job, following in reversed(list(zip(order, [*order[1:], None], strict=True))):
        above = job.priority if following is None else least[-1] + _step(job, following)
        least.append(max(job.priority, above))
    given: list[int] = []
    for job, before, priority in zip(order, [None, *order[:-1]], reversed(least), strict=True):
        most = MAX_PRIORITY if before is None else given[-1] - _step(before, job)
        given.append(min(priority, most))
    return {job.job_id: new for job, new in zip(order, given, strict=True) if new != job.priority}


def _step(job: Waiting, following: Waiting) -> int:
    """Return how far a job's priority must be above that of the next job."""
    is_older = (job.submitted_at, job.job_id) < (following.submitted_at, following.job_id)
    return 0 if is_older and job.submitted_by == following.submitted_by else 1


def _queued_job(connection: sa.Connection, job_id: str) -> None:
    job = get_job(connection, job_id, lock=True)
    if job.state != "queued":
        raise UserError(f"job {job_id} is {job.state}: only a queued job can be moved")


def _set_priority(connection: sa.Connection, job_id: str, priority: int, actor: Actor) -> None:
    connection.execute(jobs_table.update().where(jobs_table.c.job_id == job_id).values(priority=priority))
    add_event(connection, job_id, "priority", str(priority), actor.name)
