"""What the published warehouse says."""

from __future__ import annotations

from typing import Any

from warehouse.queries.connect import open_warehouse
from warehouse.settings import Settings


def ask(settings: Settings, sql: str) -> list[tuple[Any, ...]]:
    with open_warehouse(settings.warehouse_file) as connection:
        return connection.execute(sql).fetchall()


def contents(settings: Settings) -> dict[str, list[tuple[Any, ...]]]:
    """Every table of the published warehouse, in an order of its own."""
    names = [name for (name,) in ask(settings, "select table_name from duckdb_tables() where table_name != 'jobs'")]
    return {name: ask(settings, f'select * from "{name}" order by all') for name in names}
