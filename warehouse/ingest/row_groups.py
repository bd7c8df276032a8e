"""Merges DuckDB's row groups.

DuckDB stores rows in groups, and each publication adds one to each table. A query pays for every group, and a
checkpoint writes the list of all groups of a table that grew. So the groups of several
runs are merged into one, once; DuckDB itself would merge them again and again as they grow.
"""

# ruff: noqa: S608 - names are ours
from __future__ import annotations

import contextlib
import itertools

import duckdb

from warehouse.ingest.catch_up import GROWING
from warehouse.ingest.master import transaction
from warehouse.schema.tables import WAREHOUSE

#: The groups of this many runs are merged into one when there is time, and this many such groups into a larger one; the
#: groups of twice as many are merged in any case.
RUNS_A_GROUP = 32
#: Groups of more rows than this are left as they are: they are large enough, and writing them again costs more.
MOST_ROWS = 65_536
#: The table that has one row per run, and few columns.
_ONE_A_RUN = "run_validity"
_GROUPS = f"""
    SELECT sum(count)::BIGINT FROM pragma_storage_info('{_ONE_A_RUN}')
    WHERE column_name = 'run_id' AND segment_type = 'VARCHAR' GROUP BY row_group_id ORDER BY row_group_id DESC
"""


def count_runs(connection: duckdb.DuckDBPyConnection) -> int:
    """Return how many runs have rows in groups."""
    row = connection.execute(f'SELECT count(*) FROM "{_ONE_A_RUN}"').fetchone()
    return 0 if row is None else int(row[0])


def merge_groups(
    connection: duckdb.DuckDBPyConnection,
    merging: contextlib.AbstractContextManager[None] | None = None,
    *,
    only_overdue: bool = False,
) -> bool:
    """Merge the groups of the last runs if there are enough of them. Return whether there were.

    The rows keep their order. Everything is done within `merging`: if that is not left normally, the database may lack
    these rows.
    """
    groups = [in_group for (in_group,) in connection.execute(_GROUPS).fetchall()]
    for size in (RUNS_A_GROUP**2, RUNS_A_GROUP):
        runs = sum(itertools.takewhile(lambda in_group: in_group < size, groups))  # noqa: B023 - consumed at once
        if (2 * size if only_overdue else size) <= runs <= MOST_ROWS:
            with merging or contextlib.nullcontext():
                _merge_last(connection, runs)
            return True
    return False


def _merge_last(connection: duckdb.DuckDBPyConnection, runs: int) -> None:
    """Take the rows of these runs out of all tables, and put them back.

    A checkpoint after both would write what it notes of all groups of a table again, because those that go are not the
    last ones then.
    """
    # Rows that no checkpoint has written yet would share a group with the merged ones, and leave a gap in it.
    connection.execute("CHECKPOINT")
    last = f'SELECT run_id FROM "{_ONE_A_RUN}" ORDER BY rowid DESC LIMIT {runs}'
    run_ids = [run_id for (run_id,) in connection.execute(last).fetchall()]
    of_runs = [name for name in GROWING if "run_id" in WAREHOUSE.tables[name].columns]
    with transaction(connection):
        taken = [name for name in of_runs if _take(connection, name, run_ids)]
    connection.execute("CHECKPOINT")
    with transaction(connection):
        for name in taken:
            connection.execute(f'INSERT INTO warehouse."{name}" SELECT * FROM temp."{name}" ORDER BY rowid')
            connection.execute(f'DROP TABLE temp."{name}"')
    connection.execute("CHECKPOINT")


def _take(connection: duckdb.DuckDBPyConnection, table: str, run_ids: list[str]) -> bool:
    """Move the rows of these runs, which are the last of the table, to a temporary one. Return whether it was done."""
    extent = f'SELECT min(rowid), max(rowid), count(*) FROM "{table}" WHERE list_contains(?, run_id)'
    first, last, count = connection.execute(extent, [run_ids]).fetchone() or (None, None, 0)
    if not 1 < count <= MOST_ROWS or last - first + 1 != count:
        return False
    connection.execute(f'CREATE TEMP TABLE "{table}" AS FROM warehouse."{table}" WHERE rowid >= {first} ORDER BY rowid')
    connection.execute(f'DELETE FROM warehouse."{table}" WHERE rowid >= {first}')
    return True
