"""Giving the file that was published before what the published one has more, so that both are equal.

A master only grows: the rows of runs and studies are appended in one order, so an earlier state has the first of them,
and the number of its rows says which are missing. The other tables are small; their rows are compared.
"""

# ruff: noqa: S608 - names are ours
from __future__ import annotations

from pathlib import Path

import duckdb

from lab.errors import DrafthouseError
from warehouse.ingest.master import attach_master, attaching, new_connection, transaction
from warehouse.schema.tables import WAREHOUSE, published_runs
from warehouse.schema.views import describe

#: Tables whose rows are only ever appended, at their end.
GROWING = (
    *(name for name, table in WAREHOUSE.tables.items() if "run_id" in table.columns and table is not published_runs),
    "prompt_lists",
    "studies",
)
#: The columns that show, row by row, whether one file is an earlier state of the other.
_HISTORY = {"runs": "run_id", "studies": "study_id"}


class DivergedError(DrafthouseError):
    """The earlier file is not an earlier state of the newer one: adding rows would not make them equal."""


def catch_up(earlier: Path, newer: Path) -> None:
    """Bring the database at `earlier` to the state of `newer`; safe to repeat after being killed anywhere.

    Raises DivergedError or RevisionError if it is not an earlier state, and duckdb.IOException while it is in use.
    """
    with new_connection(earlier) as connection:
        connection.execute(attaching(newer, "newer", "READ_ONLY"))
        attach_master(connection, earlier)
        for name, key in _HISTORY.items():
            _refuse_another_history(connection, name, key)
        with transaction(connection):
            for name in WAREHOUSE.tables:
                (_append if name in GROWING else _replace)(connection, name)
            describe(connection)
        connection.execute("CHECKPOINT")


def _refuse_another_history(connection: duckdb.DuckDBPyConnection, table: str, key: str) -> None:
    here = _one(connection, f'SELECT bit_xor(hash(rowid, "{key}")) FROM "{table}"')
    rows = _one(connection, f'SELECT count(*) FROM "{table}"')
    digest = _one(connection, f'SELECT bit_xor(hash(rowid, "{key}")) FROM newer."{table}" WHERE rowid < {rows}')
    if here != digest:
        raise DivergedError(f"its {table} are not the first ones of the published file")


def _append(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Append the rows that are missing, if no row was removed and the last one is the same in both files."""
    rows = _one(connection, f'SELECT count(*) FROM "{table}"')
    if _one(connection, f'SELECT count(*) FROM "{table}" WHERE rowid >= {rows}'):
        raise DivergedError(f"rows were removed from its {table}")
    wanted = _one(connection, f'SELECT count(*) FROM newer."{table}"')
    last = f'SELECT hash("{table}") FROM {{}}"{table}" WHERE rowid >= {rows - 1} ORDER BY rowid LIMIT 1'
    if rows and _one(connection, last.format("")) != _one(connection, last.format("newer.")):
        raise DivergedError(f"the last of its {rows} {table} is another one in the published file")
    connection.execute(f'INSERT INTO "{table}" BY NAME SELECT * FROM newer."{table}" WHERE rowid >= {rows}')
    if (has := _one(connection, f'SELECT count(*) FROM "{table}"')) != wanted:
        raise DivergedError(f"it would have {has} {table}, and the published file has {wanted}")


def _replace(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Remove the rows that the newer file does not have, and add those that it has more."""
    gone = f'SELECT rowid FROM "{table}" AS here ANTI JOIN newer."{table}" AS there ON here IS NOT DISTINCT FROM there'
    connection.execute(f'DELETE FROM "{table}" WHERE rowid IN ({gone})')
    connection.execute(f'INSERT INTO "{table}" BY NAME (FROM newer."{table}" EXCEPT ALL FROM "{table}")')


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    row = connection.execute(query).fetchone()
    return 0 if row is None or row[0] is None else int(row[0])
