"""Replicates tables of the app database: reads them after somebody wrote to it, and stores what differs."""

# ruff: noqa: S608 - names are ours
from __future__ import annotations

import time
from typing import Any

import duckdb
import sqlalchemy as sa

from warehouse.app_db import schema as app_schema
from warehouse.app_db.engine import DATABASE_ERRORS, reading, refuse_newer_database
from warehouse.ingest.master import insert, transaction
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

#: Rows by table. A job's progress and lease are not among the columns, so the rows change rarely.
AppTables = dict[str, list[tuple[Any, ...]]]
_STUDIES = app_schema.studies
_REPLICATED: dict[sa.Table, tuple[Column, ...]] = {
    _STUDIES: STUDY_COLUMNS,
    app_schema.jobs: JOB_COLUMNS,
    app_schema.curated_studies: CURATED_COLUMNS,
    app_schema.prices: PRICE_COLUMNS,
    app_schema.series: SERIES_COLUMNS,
    app_schema.nights: NIGHT_COLUMNS,
    app_schema.alarms: ALARM_COLUMNS,
}
_JOB_COLUMNS = [column.name for column in JOB_COLUMNS]
#: Studies are added, never changed, and large: while their number is the same, they are read only this often.
ALL_STUDIES_EVERY_S = 60.0
_COUNT = sa.select(sa.func.count()).select_from(_STUDIES)
#: A value that changes with each writing transaction, workers' heartbeats included.
_STATE = {"sqlite": "PRAGMA data_version", "postgresql": "SELECT pg_current_snapshot()::text"}


class AppReader:
    """Reads the replicated tables, and costs next to nothing while nobody writes to the app database."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = reading(engine)
        self._connection: sa.Connection | None = None
        self._state: object = None
        self._tables: AppTables = {}
        self._studies_read_s = 0.0

    def changed(self) -> AppTables:
        """Return the tables whose rows have changed since the last call.

        Raises DATABASE_ERRORS if the database cannot be reached, and RevisionError if a newer Drafthouse has migrated
        it.
        """
        state = self._read_state()
        if state == self._state:
            return {}
        refuse_newer_database(self._engine)
        tables = self._read()
        changed = {name: rows for name, rows in tables.items() if rows != self._tables.get(name)}
        self._state, self._tables = state, tables
        return changed

    def running_jobs(self) -> list[str]:
        """Return the ids of the jobs that ran at the last call of `changed`."""
        job_id, state = (_JOB_COLUMNS.index(name) for name in ("job_id", "state"))
        return [row[job_id] for row in self._tables.get("jobs", ()) if row[state] == "running"]

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

    def _read(self) -> AppTables:
        now_s, known = time.monotonic(), self._tables.get(_STUDIES.name, [])
        with self._engine.connect() as connection:
            if now_s - self._studies_read_s < ALL_STUDIES_EVERY_S and connection.scalar(_COUNT) == len(known):
                others = {table: columns for table, columns in _REPLICATED.items() if table is not _STUDIES}
                return {_STUDIES.name: known, **_read(connection, others)}
            self._studies_read_s = now_s
            return _read(connection, _REPLICATED)


def read_app_tables(engine: sa.Engine) -> AppTables:
    """Read the rows that the warehouse replicates. Raises DATABASE_ERRORS if the app database cannot be reached."""
    with reading(engine).connect() as connection:
        return _read(connection, _REPLICATED)


def _read(connection: sa.Connection, tables: dict[sa.Table, tuple[Column, ...]]) -> AppTables:
    rows_of: AppTables = {}
    for table, columns in tables.items():
        chosen = [table.c[column.name] for column in columns]
        rows_of[table.name] = list(map(tuple, connection.execute(sa.select(*chosen).order_by(chosen[0]))))
    return rows_of


def replicate_app_tables(connection: duckdb.DuckDBPyConnection, tables: AppTables) -> bool:
    """Make the master's replicas equal to these rows. Return whether that changed anything."""
    columns_of = {table.name: columns for table, columns in _REPLICATED.items()}
    with transaction(connection):
        changed = [name for name, rows in tables.items() if _replicate(connection, name, columns_of[name], rows)]
    return bool(changed)


def _replicate(
    connection: duckdb.DuckDBPyConnection, table: str, columns: tuple[Column, ...], source_rows: list[tuple[Any, ...]]
) -> bool:
    """Store the rows, by appending if nothing else changed: an earlier published file can get appended rows too."""
    stored = connection.execute(f'FROM "{table}"').to_arrow_table()
    names = [column.name for column in columns]
    position = {key: number for number, key in enumerate(stored[names[0]].to_pylist())}
    ordered = sorted(source_rows, key=lambda row: position.get(row[0], len(position)))
    records = [dict(zip(names, row, strict=True)) for row in ordered]
    wanted = rows(columns, records).select(stored.column_names).cast(stored.schema)
    if wanted.equals(stored):
        return False
    if wanted.slice(0, stored.num_rows).equals(stored):
        insert(connection, {table: wanted.slice(stored.num_rows)})
    else:
        connection.execute(f'DELETE FROM "{table}"')
        insert(connection, {table: wanted})
    return True
