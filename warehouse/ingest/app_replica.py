"""Studies, jobs and prices from the app database into the master, for whoever queries the warehouse."""

from __future__ import annotations

from typing import Any

import duckdb
import sqlalchemy as sa

from warehouse.app_db import schema as app_schema
from warehouse.app_db.engine import reading
from warehouse.ingest.master import insert, transaction
from warehouse.schema.column import Column, keyed, rows
from warehouse.schema.tables import JOB_COLUMNS, PRICE_COLUMNS, STUDY_COLUMNS

#: What was mirrored last, by table; a job's progress and lease are not among its columns, so it changes rarely.
Mirrored = dict[str, list[tuple[Any, ...]]]
_MIRRORED: tuple[tuple[sa.Table, tuple[Column, ...]], ...] = (
    (app_schema.studies, STUDY_COLUMNS),
    (app_schema.jobs, JOB_COLUMNS),
    (app_schema.prices, PRICE_COLUMNS),
)


def read_app(engine: sa.Engine) -> Mirrored:
    """What the warehouse is to know of the app database. Raises sqlalchemy's DBAPIError where it is away."""
    found: Mirrored = {}
    with reading(engine).connect() as connection:
        for table, columns in _MIRRORED:
            chosen = [table.c[column.name] for column in columns]
            found[table.name] = list(map(tuple, connection.execute(sa.select(*chosen).order_by(chosen[0]))))
    return found


def mirror(connection: duckdb.DuckDBPyConnection, found: Mirrored) -> None:
    """Make the master's copies equal to what was found."""
    with transaction(connection):
        for table, columns in _MIRRORED:
            connection.execute(f'DELETE FROM "{table.name}"')  # noqa: S608 - names are ours
            records = [dict(zip((column.name for column in columns), row, strict=True)) for row in found[table.name]]
            insert(connection, {table.name: rows(keyed(columns), records)})
