"""Replicates tables of the app database: reads what others wrote to it, and stores what differs.

Jobs and studies grow without end: of jobs those are read that have new events, of studies those that are not stored.
The other tables are small, and read whole.
"""

# ruff: noqa: S608 - names are ours
from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import sqlalchemy as sa

from warehouse.app_db import schema as app_schema
from warehouse.app_db.engine import DATABASE_ERRORS, reading, refuse_newer_database
from warehouse.ingest.master import transaction
from warehouse.schema.column import Column, rows
from warehouse.schema.tables import (
    ALARM_COLUMNS,
    CURATED_COLUMNS,
    JOB_COLUMNS,
    NIGHT_COLUMNS,
    PRICE_COLUMNS,
    SERIES_COLUMNS,
    STUDY_COLUMNS,
)

_JOBS, _STUDIES, _EVENTS = app_schema.jobs, app_schema.studies, app_schema.job_events
_SMALL: dict[sa.Table, tuple[Column, ...]] = {
    app_schema.curated_studies: CURATED_COLUMNS,
    app_schema.prices: PRICE_COLUMNS,
    app_schema.series: SERIES_COLUMNS,
    app_schema.nights: NIGHT_COLUMNS,
    app_schema.alarms: ALARM_COLUMNS,
}
_REPLICATED = {_STUDIES: STUDY_COLUMNS, _JOBS: JOB_COLUMNS, **_SMALL}
#: Rows are converted in portions: a million of them are a gigabyte of Python's objects. Studies are large.
_AT_ONCE, _STUDIES_AT_ONCE = 10_000, 500
#: No transaction is open for so long that others add this many events meanwhile.
_EVENTS_BEHIND = 10_000
#: A value that changes with each writing transaction, workers' heartbeats included.
_STATE = {"sqlite": "PRAGMA data_version", "postgresql": "SELECT pg_current_snapshot()::text"}
#: The oldest transaction that may still be open, and the next one. SQLite has one writer, whose events are in order.
_TRANSACTIONS = {
    "sqlite": "0, 0",
    "postgresql": "pg_snapshot_xmin(pg_current_snapshot())::text::bigint, "
    "pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
}


@dataclass(frozen=True)
class Replica:
    """Rows of a table. `is_whole`: rows that are stored and not among them are gone from the app database."""

    rows: pa.Table
    is_whole: bool


AppTables = Mapping[str, Replica]


@dataclass(frozen=True)
class _Events:
    """The newest event, and how far all are committed: an open transaction may still add one before the newest.

    Every transaction that could add one up to `newest` has ended when `next_transaction` is the oldest that is open.
    """

    settled: int
    newest: int
    next_transaction: int


class AppReader:
    """Reads the replicated tables, and costs next to nothing while nobody writes to the app database.

    `known_studies` are stored already: studies are added, and never changed.
    """

    def __init__(self, engine: sa.Engine, known_studies: Collection[str] = ()) -> None:
        self._engine = reading(engine)
        self._connection: sa.Connection | None = None
        self._state: object = None
        self._known_studies = set(known_studies)
        self._events: _Events | None = None
        self._read_last: dict[str, pa.Table] = {}
        self._running: list[str] = []

    def changed(self) -> AppTables:
        """Return the rows that may have changed since the last call, for the caller to store.

        Raises DATABASE_ERRORS if the database cannot be reached, and RevisionError if a newer Drafthouse has migrated
        it.
        """
        state = self._read_state()
        if state == self._state:
            return {}
        refuse_newer_database(self._engine)
        with self._engine.connect() as connection:
            query = sa.select(_JOBS.c.job_id).where(_JOBS.c.state == "running").order_by(_JOBS.c.job_id)
            running = list(connection.scalars(query))
            read = {table.name: Replica(_rows(connection, table), is_whole=True) for table in _SMALL}
            jobs, events = self._read_jobs(connection)
            read |= jobs
        changed = {name: replica for name, replica in read.items() if replica.rows != self._read_last.get(name)}
        self._read_last = {name: replica.rows for name, replica in read.items()}
        self._state, self._events, self._running = state, events, running
        if _STUDIES.name in read:
            self._known_studies.update(map(str, read[_STUDIES.name].rows["study_id"].to_pylist()))
        return changed

    def running_jobs(self) -> list[str]:
        """Return the ids of the jobs that ran at the last call of `changed`."""
        return self._running

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read_state(self) -> object:
        """Read the state, always on the same connection: SQLite's number means nothing on another one."""
        if self._connection is None:
            self._connection, self._state = self._engine.connect(), None
        try:
            state = self._connection.exec_driver_sql(_STATE[self._engine.dialect.name]).scalar()
            self._connection.rollback()
        except DATABASE_ERRORS:
            self.close()
            raise
        return state

    def _read_jobs(self, connection: sa.Connection) -> tuple[dict[str, Replica], _Events]:
        """Read the jobs with new events and their new studies; at first, and of a restored database, all."""
        query = f"SELECT coalesce(max(id), 0), {_TRANSACTIONS[connection.dialect.name]} FROM job_events"
        newest, oldest_open, following = connection.exec_driver_sql(query).one()
        before = self._events
        if before is None or newest < before.settled:
            settled = newest if oldest_open == following else max(0, newest - _EVENTS_BEHIND)
            read = {_JOBS.name: Replica(_rows(connection, _JOBS), is_whole=True)}
            read |= self._read_studies(connection, connection.scalars(sa.select(_STUDIES.c.study_id)))
            return read, _Events(settled, newest, following)
        if newest == before.settled:
            return {}, before
        of_events = _JOBS.c.job_id.in_(sa.select(_EVENTS.c.job_id).where(_EVENTS.c.id > before.settled))
        read = {_JOBS.name: Replica(_rows(connection, _JOBS, of_events), is_whole=False)}
        read |= self._read_studies(connection, map(str, read[_JOBS.name].rows["study_id"].to_pylist()))
        if oldest_open == following:  # no transaction is open
            return read, _Events(newest, newest, following)
        ended = oldest_open >= before.next_transaction
        return read, _Events(before.newest, newest, following) if ended else before

    def _read_studies(self, connection: sa.Connection, study_ids: Iterable[str]) -> dict[str, Replica]:
        unknown = sorted(set(study_ids) - self._known_studies)
        portions = [unknown[first : first + _STUDIES_AT_ONCE] for first in range(0, len(unknown), _STUDIES_AT_ONCE)]
        read = [_rows(connection, _STUDIES, _STUDIES.c.study_id.in_(portion)) for portion in portions]
        return {_STUDIES.name: Replica(pa.concat_tables(read), is_whole=False)} if read else {}


def read_app_tables(engine: sa.Engine) -> AppTables:
    """Read the rows that the warehouse replicates. Raises DATABASE_ERRORS if the app database cannot be reached."""
    with reading(engine).connect() as connection:
        return {table.name: Replica(_rows(connection, table), is_whole=True) for table in _REPLICATED}


def _rows(connection: sa.Connection, table: sa.Table, *conditions: sa.ColumnElement[bool]) -> pa.Table:
    columns = _REPLICATED[table]
    chosen = [table.c[column.name] for column in columns]
    query = sa.select(*chosen).where(*conditions).order_by(chosen[0]).execution_options(yield_per=_AT_ONCE)
    portions = connection.execute(query).mappings().partitions()
    return pa.concat_tables([rows(columns, []), *(rows(columns, portion) for portion in portions)])


def replicate_app_tables(connection: duckdb.DuckDBPyConnection, tables: AppTables) -> bool:
    """Store these rows in the master's replicas. Return whether that changed anything."""
    columns_of = {table.name: columns for table, columns in _REPLICATED.items()}
    with transaction(connection):
        changed = [name for name, replica in tables.items() if _replicate(connection, name, columns_of[name], replica)]
    return bool(changed)


def _replicate(
    connection: duckdb.DuckDBPyConnection, table: str, columns: tuple[Column, ...], replica: Replica
) -> bool:
    """Replace the rows that differ and append new ones: an earlier published file can get appended rows too."""
    names = [f'"{column.name}"' for column in columns]
    differences = " OR ".join(f"here.{name} IS DISTINCT FROM there.{name}" for name in names[1:])
    differing = f"here.{names[0]} = there.{names[0]} AND ({differences})"
    statements = [f'DELETE FROM "{table}" AS here USING incoming AS there WHERE {differing}']
    if replica.is_whole:
        statements.append(f'DELETE FROM "{table}" WHERE {names[0]} NOT IN (SELECT {names[0]} FROM incoming)')
    statements.append(
        f'INSERT INTO "{table}" BY NAME FROM incoming ANTI JOIN "{table}" USING ({names[0]}) ORDER BY {names[0]}'
    )
    return sum(_rows_changed(connection, sql, replica.rows) for sql in statements) > 0


def _rows_changed(connection: duckdb.DuckDBPyConnection, statement: str, incoming: pa.Table) -> int:  # noqa: ARG001 - DuckDB finds it
    row = connection.execute(statement).fetchone()
    return 0 if row is None else int(row[0])
