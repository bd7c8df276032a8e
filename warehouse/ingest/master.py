"""The master, the ingester's own database, which one process at a time may open.

`warehouse.ingest.publication` makes its contents available to readers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import sqlalchemy as sa

from host.files import held
from warehouse.queries.connect import duckdb_revision
from warehouse.schema import revisions
from warehouse.schema.tables import WAREHOUSE
from warehouse.schema.views import describe

#: Errors of a full disk, or of a database that must be reopened. They do not reject a bundle.
MASTER_ERRORS = (OSError, duckdb.OperationalError, duckdb.InternalError, duckdb.FatalException)
Tables = Mapping[str, pa.Table]
#: One thread and little memory: the ingester shares its machine with measurements. Without vacuum tasks a checkpoint
#: writes what is new; with them it may rewrite every row of a table to merge the groups that its rows lie in.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "2GB",
    "max_vacuum_tasks": 0,
}
#: The block size of new files; with DuckDB's own 256 KiB a change of a kilobyte would write as much.
BLOCK_BYTES = 65_536
#: How a master is attached. There is no write-ahead log: what was committed after the last checkpoint and is lost by
#: kill -9 is read from its bundles again. DuckDB 1.1 is the first that opens blocks of other sizes than its own; for
#: older ones a checkpoint would write 3 kB more for each column, a third of what it writes for a run.
WRITING = "RECOVERY_MODE no_wal_writes, STORAGE_VERSION 'v1.1.0'"


def only_ingester(home: Path) -> contextlib.AbstractContextManager[None]:
    """Hold the home's ingester lock. Raises UserError at once if another process holds it; kill -9 frees it."""
    return held(
        home / "ingester.lock",
        lambda process: f"an ingester already runs on {home.absolute()} (process {process}): stop it first",
    )


def new_connection(master: Path) -> duckdb.DuckDBPyConnection:
    """Return a connection to which the database at `master` can be attached."""
    return duckdb.connect(":memory:", config={**_CONFIG, "temp_directory": f"{master.absolute()}.tmp"})


def connect_master(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a master as its only writer. Raises RevisionError, and duckdb.IOException if it cannot be opened."""
    connection = new_connection(path)
    try:
        attach_master(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def attach_master(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Attach a master as the connection's database. Raises RevisionError, and duckdb.IOException as above."""
    if not path.exists():  # attaching would create it
        revisions.refuse_other_revision("warehouse", str(path), None)
    connection.execute(attaching(path, "warehouse", WRITING))
    connection.execute("USE warehouse")
    try:
        revisions.refuse_other_revision("warehouse", str(path), duckdb_revision(connection))
    except BaseException:
        detach_master(connection)
        raise


def detach_master(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("USE memory")
    connection.execute("DETACH warehouse")


def attaching(path: Path, name: str, option: str) -> str:
    """Return the statement that attaches a database file under a name."""
    quoted = str(path.absolute()).replace("'", "''")
    return f"ATTACH '{quoted}' AS {name} ({option})"


def create_master(path: Path) -> None:
    """Create the database at `path`, or upgrade it to the newest revision, with its views and comments."""
    config = {**_CONFIG, "default_block_size": str(BLOCK_BYTES)}
    engine = sa.create_engine(sa.URL.create("duckdb", database=str(path)), connect_args={"config": config})
    try:
        with engine.begin() as connection:
            revisions.upgrade("warehouse", connection, WAREHOUSE, str(path))
    finally:
        engine.dispose()
    with connect_master(path) as opened:
        refresh(opened)


def refresh(connection: duckdb.DuckDBPyConnection) -> None:
    """Bring views, comments and published figures up to date with this Drafthouse. Safe to repeat."""
    from warehouse.ingest.published_tables import published_tables  # noqa: PLC0415 - most processes do without its figures

    with transaction(connection):
        describe(connection)
        for name, rows in published_tables().items():
            if connection.execute(f'FROM "{name}"').to_arrow_table() != rows:
                connection.execute(f'DELETE FROM "{name}"')  # noqa: S608 - names are ours
                insert(connection, {name: rows})


def insert(connection: duckdb.DuckDBPyConnection, tables: Tables) -> None:
    """Append rows by column name, inside the caller's transaction."""
    for name, incoming in tables.items():
        if incoming.num_rows:
            # DuckDB finds the variable. A view of it, as `register` makes, takes longer than the rows of a small table.
            connection.execute(f'INSERT INTO "{name}" BY NAME SELECT * FROM incoming')  # noqa: S608 - names are ours


@contextlib.contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Commit all or nothing. The first error is raised even if the rollback fails too, as on a full disk."""
    connection.begin()
    try:
        yield
        connection.commit()
    except BaseException:
        with contextlib.suppress(duckdb.Error):
            connection.rollback()
        raise


def published_revision(path: Path) -> str | None:
    """Return the revision of a published file, or None if there is no file."""
    if not path.exists():
        return None
    with duckdb.connect(path, read_only=True) as connection:
        return duckdb_revision(connection)
