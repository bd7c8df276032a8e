"""Queries of the published warehouse."""

from __future__ import annotations

from typing import Any

from host.settings import Settings
from warehouse.queries.connect import open_warehouse


def ask(settings: Settings, sql: str) -> list[tuple[Any, ...]]:
    with open_warehouse(settings.warehouse_file) as connection:
        return connection.execute(sql).fetchall()


def contents(settings: Settings) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of every table of the published warehouse but jobs and what was added to studies, sorted by all
    columns.
    """
    with open_warehouse(settings.warehouse_file) as connection:
        query = "select table_name from duckdb_tables() where table_name not in ('jobs', 'curated_studies')"
        names = connection.execute(query).fetchall()
        return {name: connection.execute(f'select * from "{name}" order by all').fetchall() for (name,) in names}
