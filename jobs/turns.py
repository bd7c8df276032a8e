"""The order in which waiting jobs are taken.

Higher priority first. Of equal priority, the submitters take turns: whoever has fewest jobs running and before it in
the queue comes first, then the older job. So a submitter of many studies does not hold up a submitter of one.
"""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Generic, Protocol, TypeVar

import sqlalchemy as sa

from warehouse.app_db.schema import jobs


class Waiting(Protocol):
    """A waiting job, as a record or as a row of the job table."""

    @property
    def job_id(self) -> str: ...
    @property
    def priority(self) -> int: ...
    @property
    def submitted_at(self) -> datetime: ...
    @property
    def submitted_by(self) -> str | None: ...


J = TypeVar("J", bound=Waiting)
_Key = tuple[int, int, datetime, str]


def _own_key(job: Waiting) -> tuple[int, datetime, str]:
    """Sort key among the jobs of one submitter."""
    return (-job.priority, job.submitted_at, job.job_id)


def _key(job: Waiting, turn: int) -> _Key:
    return (-job.priority, turn, job.submitted_at, job.job_id)


def in_turn(waiting: Iterable[J], running: Iterable[str | None]) -> list[J]:
    """Return the waiting jobs in the order in which they are taken. `running`: the submitter of each running job."""
    turns = Counter(running)
    keyed: list[tuple[_Key, J]] = []
    for job in sorted(waiting, key=_own_key):
        keyed.append((_key(job, turns[job.submitted_by]), job))
        turns[job.submitted_by] += 1
    return [job for _, job in sorted(keyed, key=lambda pair: pair[0])]


class Turns(Generic[J]):
    """A queue from which jobs are taken one by one, as workers do, while others of the same submitters run."""

    def __init__(self, waiting: Iterable[J]) -> None:
        self._own: dict[str | None, list[J]] = defaultdict(list)
        for job in sorted(waiting, key=_own_key):
            self._own[job.submitted_by].append(job)

    def __bool__(self) -> bool:
        return any(self._own.values())

    def add(self, job: J) -> None:
        """Insert a job in order."""
        bisect.insort(self._own[job.submitted_by], job, key=_own_key)

    def take(self, running: Iterable[str | None], fits: Callable[[J], bool]) -> J | None:
        """Remove and return the first job in turn that fits, or return None.

        Along a submitter's own jobs both parts of the order grow, so the first that fits is their best.
        """
        turns = Counter(running)
        best: tuple[_Key, list[J], int] | None = None
        for submitter, own in self._own.items():
            index = next((index for index, job in enumerate(own) if fits(job)), None)
            if index is not None:
                key = _key(own[index], turns[submitter] + index)
                best = min(best or (key, own, index), (key, own, index), key=lambda found: found[0])
        if best is None:
            return None
        _, own, index = best
        return self._own[own[index].submitted_by].pop(index)


def all_in_turn() -> sa.Select[str]:
    """Return the query for the ids of all queued jobs in the order of `in_turn`."""
    running = sa.select(jobs.c.submitted_by, sa.func.count().label("count")).where(jobs.c.state == "running")
    ahead = running.group_by(jobs.c.submitted_by).subquery("running")
    own = (jobs.c.priority.desc(), jobs.c.submitted_at, jobs.c.job_id)
    number = sa.func.row_number().over(partition_by=jobs.c.submitted_by, order_by=own).label("number")
    columns = (jobs.c.job_id, jobs.c.submitted_by, jobs.c.priority, jobs.c.submitted_at)
    queued = sa.select(*columns, number).where(jobs.c.state == sa.literal_column("'queued'")).subquery("queued")
    turn = queued.c.number + sa.func.coalesce(ahead.c.count, 0)
    order = (queued.c.priority.desc(), turn, queued.c.submitted_at, queued.c.job_id)
    of_submitter = ahead.c.submitted_by.is_not_distinct_from(queued.c.submitted_by)
    return sa.select(queued.c.job_id).outerjoin_from(queued, ahead, of_submitter).order_by(*order)
