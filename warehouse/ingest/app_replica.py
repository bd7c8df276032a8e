"""The replica of studies, jobs and prices from the app database in the master."""

from __future__ import annotations

from typing import Any

import duckdb
import sqlalchemy as sa

from warehouse.app_db import schema as app_schema
from warehouse.app_db.engine import reading
from warehouse.ingest.master import insert, transaction
from warehouse.schema.column import Column, from_dicts, rows
from warehouse.schema.tables import JOB_COLUMNS, PRICE_COLUMNS, STUDY_COLUMNS

#: Rows by table. A job's progress and lease are not among the columns, so the rows change rarely.
AppTables = dict[str, list[tuple[Any, ...]]]
_REPLICATED: tuple[tuple[sa.Table, tuple[Column, ...]], ...] = (
    (app_schema.studies, STUDY_COLUMNS),
    (app_schema.jobs, JOB_COLUMNS),
    (app_schema.prices, PRICE_COLUMNS),
)


def read_app_tables(engine: sa.Engine) -> AppTables:
    """Read the rows that the warehouse replicates. Raises SQLAlchemy's DBAPIError if the app database is away."""
    tables: AppTables = {}
    with reading(engine).connect() as connection:
        for table, columns in _REPLICATED:
            chosen = [table.c[column.name] for column in columns]
            tables[table.name] = list(map(tuple, connection.execute(sa.select(*chosen).order_by(chosen[0]))))
    return tables


def replicate_app_tables(connection: duckdb.DuckDBPyConnection, tables: AppTables) -> None:
    """Replace the master's copies with these rows."""
    with transaction(connection):
        for table, columns in _REPLICATED:
            connection.execute(f'DELETE FROM "{table.name}"')  # noqa: S608 - names are ours
            records = [dict(zip((column.name for column in columns), row, strict=True)) for row in tables[table.name]]
            insert(connection, {table.name: rows(from_dicts(columns), records)})
