"""Brings the previously published file up to date with the published one, so that both are equal.

A master only grows: the rows of runs and studies are appended in one order, so an earlier state has the first of them,
and the number of its rows says which are missing. The other tables are small; their rows are compared.

Reading the first row of a table costs time for each of its row groups. So a table is left alone if both files
have as many rows of it, and a file is compared row by row only if somebody else may have written to it.
"""

# ruff: noqa: S608 - names are ours
from __future__ import annotations

import contextlib
from collections.abc import Collection
from pathlib import Path

import duckdb

from lab.errors import DrafthouseError
from warehouse.ingest.master import attach_master, attaching, detach_master, transaction
from warehouse.schema.tables import WAREHOUSE
from warehouse.schema.views import describe

#: Tables whose rows are only ever appended, at their end.
GROWING = (
    *(name for name, table in WAREHOUSE.tables.items() if "run_id" in table.columns and name != "published_runs"),
    "prompt_lists",
    "studies",
    "judgements",
    "judged_metrics",
    "judged_arms",
)
#: The columns that show, row by row, whether one file is an earlier state of the other.
_HISTORY = {"runs": "run_id", "studies": "study_id"}
_EQUAL_SIZE = """
    SELECT here.table_name FROM duckdb_tables() AS here JOIN duckdb_tables() AS there USING (table_name, estimated_size)
    WHERE here.database_name = current_database() AND there.database_name = 'newer'
"""


class DivergedError(DrafthouseError):
    """The earlier file is not an earlier state of the newer one: adding rows would not make them equal."""


def catch_up(
    connection: duckdb.DuckDBPyConnection,
    earlier: Path,
    newer: Path,
    *,
    is_untouched: bool = False,
    changed_jobs: Collection[str] | None = None,
) -> None:
    """Attach the database at `earlier` as a master, and bring it to the state of `newer`, in memory: the next
    checkpoint writes it.

    Safe to repeat after being killed anywhere. `is_untouched` says that nobody wrote to `earlier` since `newer` was
    made from its state; then the rows of no other jobs than `changed_jobs` differ, if these are known. Raises
    DivergedError or RevisionError if it is not an earlier state, and duckdb.IOException while it is in use; nothing is
    attached then.
    """
    attach_master(connection, earlier)
    try:
        connection.execute(attaching(newer, "newer", "READ_ONLY"))
        _add_what_is_missing(connection, changed_jobs if is_untouched else None, is_untouched=is_untouched)
        connection.execute("DETACH newer")
    except BaseException:
        with contextlib.suppress(duckdb.Error):
            connection.execute("DETACH DATABASE IF EXISTS newer")
            detach_master(connection)
        raise


def _add_what_is_missing(
    connection: duckdb.DuckDBPyConnection, changed_jobs: Collection[str] | None, *, is_untouched: bool
) -> None:
    if is_untouched:
        equal = connection.execute(_EQUAL_SIZE).fetchall()  # the tables with as many rows in both files
        grown = [name for name in GROWING if (name,) not in equal]
    else:
        grown = list(GROWING)
        _refuse_another_beginning(connection)
    with transaction(connection):
        for name in grown:
            _append(connection, name)
        for name in WAREHOUSE.tables.keys() - set(GROWING):
            if name == "jobs" and changed_jobs is not None:
                _replace_jobs(connection, changed_jobs)
            else:
                _replace(connection, name)
        describe(connection)


def _refuse_another_beginning(connection: duckdb.DuckDBPyConnection) -> None:
    for table in GROWING:
        rows = _one(connection, f'SELECT count(*) FROM "{table}"')
        last = f'SELECT hash("{table}") FROM {{}}"{table}" WHERE rowid >= {rows - 1} ORDER BY rowid LIMIT 1'
        if rows and _one(connection, last.format("")) != _one(connection, last.format("newer.")):
            raise DivergedError(f"the last of its {rows} {table} is another one in the published file")
        if table in _HISTORY:
            history = f'SELECT bit_xor(hash(rowid, "{_HISTORY[table]}")) FROM {{}}"{table}" WHERE rowid < {rows}'
            if _one(connection, history.format("")) != _one(connection, history.format("newer.")):
                raise DivergedError(f"its {table} are not the first ones of the published file")


def _append(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Append the missing rows, if no row was removed."""
    rows = _one(connection, f'SELECT count(*) FROM "{table}"')
    if _one(connection, f'SELECT count(*) FROM "{table}" WHERE rowid >= {rows}'):
        raise DivergedError(f"rows were removed from its {table}")
    wanted = _one(connection, f'SELECT count(*) FROM newer."{table}"')
    if wanted == rows:
        return
    connection.execute(f'INSERT INTO "{table}" BY NAME SELECT * FROM newer."{table}" WHERE rowid >= {rows}')
    if (has := _one(connection, f'SELECT count(*) FROM "{table}"')) != wanted:
        raise DivergedError(f"it would have {has} {table}, and the published file has {wanted}")


def _replace(connection: duckdb.DuckDBPyConnection, table: str) -> None:
    """Remove rows that the newer file lacks, and add rows that only the newer file has."""
    gone = f'SELECT rowid FROM "{table}" AS here ANTI JOIN newer."{table}" AS there ON here IS NOT DISTINCT FROM there'
    connection.execute(f'DELETE FROM "{table}" WHERE rowid IN ({gone})')
    connection.execute(f'INSERT INTO "{table}" BY NAME (FROM newer."{table}" EXCEPT ALL FROM "{table}")')


def _replace_jobs(connection: duckdb.DuckDBPyConnection, job_ids: Collection[str]) -> None:
    """Replace the rows of these jobs: comparing a million rows takes seconds."""
    of_these = "WHERE job_id IN (SELECT unnest(?))"
    connection.execute(f'DELETE FROM "jobs" {of_these}', [list(job_ids)])
    connection.execute(f'INSERT INTO "jobs" BY NAME SELECT * FROM newer."jobs" {of_these}', [list(job_ids)])


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    row = connection.execute(query).fetchone()
    return 0 if row is None or row[0] is None else int(row[0])
