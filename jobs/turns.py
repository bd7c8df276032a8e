"""The order in which waiting jobs are taken.

Higher priority first. Of equal priority, the submitters take turns: whoever has fewest jobs running and before it in
the queue comes first, then the older job. So a submitter of many studies does not hold up a submitter of one.
"""

from __future__ import annotations

import bisect
import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Generic, Protocol, TypeVar

import sqlalchemy as sa

from jobs.fleet.needs import Versions, met_by
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


def queued_in_turn(
    connection: sa.Connection, hardware: str, passed_over: Collection[str], engines: Versions | None
) -> Iterator[str]:
    """Yield the ids of the queued jobs that this hardware may run with these engines, in turn.

    The first job of all is some submitter's first, and the first jobs of other submitters come directly after it if
    they have its priority and turn.
    """
    has_engines, values = met_by(engines)
    query = _firsts(has_engines, connection.dialect.name).bindparams(hardware=hardware.lower(), **values)
    seen = {"", *passed_over}  # one at least: PostgreSQL estimates an empty list badly
    while rows := connection.execute(query, {"seen": sorted(seen)}).all():
        together = [row.job_id for row in rows if (row.priority, row.turn) == (rows[0].priority, rows[0].turn)]
        yield from together
        seen.update(together)


@functools.lru_cache
def _firsts(has_engines: str, dialect: str) -> sa.TextClause:
    """Select the first job of each submitter that a host may run, in turn.

    The index `ix_jobs_queued` has the queued jobs of each submitter in order. This jumps in it from one submitter to
    the next and to the first job that the host may run, and counts those before it. As a text, because SQLAlchemy
    would take longer to build it than the database to answer.
    """
    index = "INDEXED BY ix_jobs_queued" if dialect == "sqlite" else ""  # SQLite has no statistics to find it by
    queued = f"FROM jobs {index} WHERE state = 'queued'"
    # Parts of names are found by REPLACE, because LIKE takes % and _ for more than themselves.
    first = _of_submitter(
        "submitter",
        f"""SELECT job_id {queued} AND {{his}} AND {has_engines} AND job_id NOT IN :seen
        AND (hardware IS NULL OR replace(:hardware, hardware, '') <> :hardware)
        ORDER BY priority DESC, submitted_at, job_id LIMIT 1""",
    )
    older = "priority = first.priority AND (submitted_at, job_id) < (first.submitted_at, first.job_id)"
    before = [
        _of_submitter("first.submitted_by", f"SELECT count(*) {queued} AND {{his}} AND {is_before}")
        for is_before in ("priority > first.priority", older)
    ]
    return sa.text(f"""
WITH RECURSIVE submitters(submitter) AS (  -- the last one is null: nobody that is known
    SELECT min(submitted_by) {queued}
    UNION ALL
    SELECT (SELECT min(submitted_by) {queued} AND submitted_by > submitter)
    FROM submitters WHERE submitter IS NOT NULL
),
firsts(job_id) AS MATERIALIZED (SELECT {first} FROM submitters),
running(submitter, jobs) AS (SELECT submitted_by, count FROM running_of_submitters)
SELECT first.job_id, first.priority, coalesce(running.jobs, 0) + {before[0]} + {before[1]} AS turn
FROM firsts JOIN jobs AS first ON first.job_id = firsts.job_id
LEFT JOIN running ON submitter = first.submitted_by OR (submitter IS NULL AND first.submitted_by IS NULL)
ORDER BY first.priority DESC, turn, first.submitted_at, first.job_id
""").bindparams(sa.bindparam("seen", expanding=True))  # noqa: S608 - made of constants


def _of_submitter(name: str, query: str) -> str:
    """Return the query for one submitter, or for jobs of nobody that is known: the index finds either."""
    known, unknown = query.format(his=f"submitted_by = {name}"), query.format(his="submitted_by IS NULL")
    return f"CASE WHEN {name} IS NULL THEN ({unknown}) ELSE ({known}) END"


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
