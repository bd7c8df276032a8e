"""The table of what people added to studies, own and imported: a name, a note, tags; and which are hidden or deleted.

A study is named by its job. What may be changed, and by whom, is in `jobs.curation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from warehouse.app_db.engine import excluding, reading
from warehouse.app_db.schema import curated_studies as table
from warehouse.app_db.schema import jobs

_SEPARATOR = ","
#: An arbitrary constant: everyone who changes this table of one PostgreSQL database takes the same lock.
_LOCK = 4_026_531_850
#: Begins a transaction that excludes other changes.
changing = partial(excluding, lock=_LOCK)


@dataclass(frozen=True)
class Curated:
    """A row of the table, or what a study is without one."""

    job_id: str
    name: str | None = None  # None: it has its first name
    note: str = ""
    tags: tuple[str, ...] = ()
    hidden_at: datetime | None = None
    deleted_at: datetime | None = None
    deleted_by: str | None = None
    called: str | None = None  # its name when it was deleted
    purged_at: datetime | None = None
    owner: str | None = None  # who imported it; None: nobody that is known, or it was measured here


def find(engine: sa.Engine, job_id: str) -> Curated:
    with reading(engine).connect() as connection:
        return read(connection, job_id)


def read(connection: sa.Connection, job_id: str) -> Curated:
    row = connection.execute(sa.select(table).where(table.c.job_id == job_id)).mappings().one_or_none()
    return Curated(job_id) if row is None else _curated(row)


def all_curated(engine: sa.Engine) -> list[Curated]:
    """Return the rows, the last deleted first."""
    query = sa.select(table).order_by(table.c.deleted_at.desc(), table.c.job_id)
    with reading(engine).connect() as connection:
        return list(map(_curated, connection.execute(query).mappings()))


def store(connection: sa.Connection, curated: Curated) -> None:
    """Store the row in the caller's transaction."""
    row = vars(curated) | {"tags": _SEPARATOR.join(curated.tags)}
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    connection.execute(insert(table).values(row).on_conflict_do_update(index_elements=["job_id"], set_=row))


def note_import(engine: sa.Engine, job_ids: Iterable[str], owner: str) -> None:
    """Note who imported these studies first. Whatever was deleted is restored: its files were imported once more."""
    with changing(engine) as connection:
        for job_id in job_ids:
            known = read(connection, job_id)
            store(
                connection,
                replace(
                    known, owner=known.owner or owner, deleted_at=None, deleted_by=None, called=None, purged_at=None
                ),
            )


def listed(*, hidden: bool = False, tag: str | None = None) -> sa.ColumnElement[bool]:
    """Return the condition that a job's study is not deleted, nor hidden unless `hidden` ones are requested, and has
    the tag, if one is given.
    """
    is_gone = table.c.deleted_at.is_not(None)
    unlisted = is_gone if hidden else sa.or_(is_gone, table.c.hidden_at.is_not(None))
    is_listed = jobs.c.job_id.not_in(sa.select(table.c.job_id).where(unlisted))
    if not tag:
        return is_listed
    tags = sa.literal(_SEPARATOR) + table.c.tags + _SEPARATOR
    # Not LIKE, by which a capital is its small letter in SQLite, and another letter in PostgreSQL.
    has_tag = sa.func.replace(tags, f"{_SEPARATOR}{tag}{_SEPARATOR}", "") != tags
    return sa.and_(is_listed, jobs.c.job_id.in_(sa.select(table.c.job_id).where(has_tag)))


def owner_of(connection: sa.Connection, job_id: str) -> str | None:
    """Return who submitted or imported a study; None: nobody that is known."""
    submitted_by = connection.scalar(sa.select(jobs.c.submitted_by).where(jobs.c.job_id == job_id))
    return submitted_by or read(connection, job_id).owner


def _curated(row: sa.RowMapping) -> Curated:
    return Curated(**{**row, "tags": tuple(filter(None, row["tags"].split(_SEPARATOR)))})
