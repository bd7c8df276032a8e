"""Lists of jobs for pages, however long the queue is: counts, filters, and whether anything has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from jobs.queue import Page, after_page
from jobs.table import Job, readable
from jobs.turns import all_in_turn
from warehouse.app_db.curated import listed
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import job_events, jobs

_NEWEST = (jobs.c.submitted_at.desc(), jobs.c.job_id.desc())


@dataclass(frozen=True)
class Wanted:
    """Which jobs a list has: those in a state, with a text in the study's name or the job's id, with a text in the
    submitter's name, with a tag. Capital and small letters are the same; an empty filter leaves out nothing. Deleted
    studies are never listed, hidden ones only on request.
    """

    state: str = ""
    text: str = ""
    submitter: str = ""
    tag: str | None = None
    hidden: bool = False

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        found = [listed(hidden=self.hidden, tag=self.tag)]
        if self.state:
            found.append(jobs.c.state == self.state)
        if self.text:
            found.append(_has(jobs.c.name, self.text) | _has(jobs.c.job_id, self.text))
        if self.submitter:
            found.append(_has(jobs.c.submitted_by, self.submitter))
        return found


def _has(column: sa.ColumnElement[Any], text: str) -> sa.ColumnElement[bool]:
    return sa.func.lower(column).contains(text.lower(), autoescape=True)


def newest_event(engine: sa.Engine) -> int:
    """Return a number that grows whenever a job is submitted, starts, ends or moves; a heartbeat does not change it."""
    with reading(engine).connect() as connection:
        return connection.scalar(sa.select(sa.func.max(job_events.c.id))) or 0


def counts(engine: sa.Engine) -> Mapping[str, int]:
    """Return the number of jobs in each state that some job is in, without those of deleted studies."""
    query = sa.select(jobs.c.state, sa.func.count()).where(listed(hidden=True)).group_by(jobs.c.state)
    with reading(engine).connect() as connection:
        return {row[0]: row[1] for row in connection.execute(query)}


def page(engine: sa.Engine, wanted: Wanted, limit: int, before: str | None = None) -> Page:
    """Return the newest of the wanted jobs, or those submitted before one, without the unreadable ones.

    Raises UserError if there is no job `before`.
    """
    ids = sa.select(jobs.c.job_id).where(*wanted.conditions()).order_by(*_NEWEST).limit(limit + 1)
    with reading(engine).connect() as connection:
        if before is not None:
            ids = ids.where(after_page(connection, before))
        found = connection.scalars(ids).all()
        rows = connection.execute(_jobs(found[:limit])).mappings()
        return Page(tuple(readable(rows)[0]), found[limit - 1] if len(found) > limit else None)


def running(engine: sa.Engine, limit: int | None = None) -> list[Job]:
    """Return the running jobs, newest first, without the unreadable ones."""
    query = sa.select(jobs).where(jobs.c.state == "running").order_by(*_NEWEST).limit(limit)
    with reading(engine).connect() as connection:
        return readable(connection.execute(query).mappings())[0]


def next_queued(engine: sa.Engine, limit: int) -> list[Job]:
    """Return the first queued jobs in turn (`jobs.turns`), without the unreadable ones."""
    with reading(engine).connect() as connection:
        ids = connection.scalars(all_in_turn().limit(limit)).all()
        found = {job.job_id: job for job in readable(connection.execute(_jobs(ids)).mappings())[0]}
    return [found[job_id] for job_id in ids if job_id in found]


def position(engine: sa.Engine, job_id: str) -> int | None:
    """Return the position of a queued job in turn, from 1; None if it is not queued (any more)."""
    with reading(engine).connect() as connection:
        ids = connection.scalars(all_in_turn()).all()
    return ids.index(job_id) + 1 if job_id in ids else None


def _jobs(ids: Any) -> sa.Select[Any]:
    return sa.select(jobs).where(jobs.c.job_id.in_(ids)).order_by(*_NEWEST)
