"""The connection to the published warehouse, for reading."""

from __future__ import annotations

from pathlib import Path

import duckdb

from lab.errors import MIGRATE_COMMAND, UserError
from warehouse.queries.point_in_time import attaching
from warehouse.schema import revisions


def open_warehouse(file: Path) -> duckdb.DuckDBPyConnection:
    """Open the published warehouse read-only: as it is now, or at a point in time (`queries.point_in_time`).

    Raises UserError if nothing has been published yet, RevisionError for a file of another revision.

    The file is attached rather than opened: `duckdb.connect` would give this process the file of before the last
    publish for as long as anything in the process still has that one open.
    """
    if not file.exists():
        raise UserError(f"there is no warehouse in {file.parent.absolute()} yet: run `{MIGRATE_COMMAND}`")
    connection = duckdb.connect(":memory:")
    try:
        connection.execute("SET TimeZone = 'UTC'")
        for statement in attaching(str(file.absolute())):
            connection.execute(statement)
        revisions.refuse_other_revision("warehouse", str(file.absolute()), duckdb_revision(connection))
    except BaseException:
        connection.close()
        raise
    return connection


def duckdb_revision(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Return the revision of the connection's current DuckDB database; None if it was never migrated."""
    try:
        row = connection.execute("select version_num from alembic_version").fetchone()
    except duckdb.CatalogException:
        return None
    return None if row is None else str(row[0])
