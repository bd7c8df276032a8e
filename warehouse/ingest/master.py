"""The master, the ingester's own database that one process at a time may open, and its publication.

It holds replicas of the app's tables. To publish, the master is copied and the copy renamed over warehouse.duckdb, so
that readers never see half a file. Another process makes the copy: if the process that holds the master closed a second
descriptor of it, the master's lock would be dropped; a second writer's tables were lost that way.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlalchemy as sa

from lab.errors import UserError
from warehouse.app_db import schema as app_schema
from warehouse.app_db.engine import reading
from warehouse.bundles.run_bundle import fsync
from warehouse.queries.connect import duckdb_revision
from warehouse.schema import revisions
from warehouse.schema.column import Column, from_dicts, rows
from warehouse.schema.tables import JOB_COLUMNS, PRICE_COLUMNS, STUDY_COLUMNS, WAREHOUSE
from warehouse.schema.views import describe

#: Errors of a full disk, or of a database that is to be opened anew. They are no reason to reject a bundle.
MASTER_ERRORS = (OSError, duckdb.OperationalError, duckdb.InternalError, duckdb.FatalException)
Tables = Mapping[str, pa.Table]
#: One thread and little memory: the ingester shares its machine with measurements.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {"threads": 1, "memory_limit": "2GB"}
#: Rows by table. A job's progress and lease are not among the columns, so the rows change rarely.
AppTables = dict[str, list[tuple[Any, ...]]]
_REPLICATED: tuple[tuple[sa.Table, tuple[Column, ...]], ...] = (
    (app_schema.studies, STUDY_COLUMNS),
    (app_schema.jobs, JOB_COLUMNS),
    (app_schema.prices, PRICE_COLUMNS),
)
_TEMPORARY = ".{name}.{unique}.publishing"


@contextlib.contextmanager
def only_ingester(home: Path) -> Iterator[None]:
    """Hold the home's ingester lock. Raises UserError at once if another process holds it; kill -9 frees it."""
    with (home / "ingester.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UserError(
                f"an ingester already runs on {home.absolute()} (process {file.read().strip()}): stop it first"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


def connect_master(path: Path) -> duckdb.DuckDBPyConnection:
    """Open a master as its only writer. Raises RevisionError, and duckdb.IOException if it cannot be opened."""
    connection = duckdb.connect(path, config=_CONFIG)
    try:
        revisions.refuse_other_revision("warehouse", str(path), duckdb_revision(connection))
    except BaseException:
        connection.close()
        raise
    return connection


def migrate_master(home: Path, master: Path, published: Path) -> None:
    """Upgrade the master to the newest revision and publish it. Does nothing if an ingester has done both already.

    Raises UserError if an ingester of another revision runs, RevisionError for a newer master.
    """
    try:
        with only_ingester(home):
            create_master(master)
            with connect_master(master) as connection:
                publish(connection, master, published)
    except UserError:
        if published_revision(published) != revisions.head("warehouse"):
            raise


def create_master(path: Path) -> None:
    """Create the database at `path`, or upgrade it to the newest revision, with its views and comments."""
    engine = sa.create_engine(sa.URL.create("duckdb", database=str(path)))
    try:
        with engine.begin() as connection:
            revisions.upgrade("warehouse", connection, WAREHOUSE, str(path))
    finally:
        engine.dispose()
    with connect_master(path) as opened:
        refresh(opened)


def refresh(connection: duckdb.DuckDBPyConnection) -> None:
    """Bring views, comments and published figures up to date with this Drafthouse. Safe to repeat."""
    from warehouse.published.tables import published_tables  # noqa: PLC0415 - its checks need SciPy

    with transaction(connection):
        describe(connection)
        for name, rows in published_tables().items():
            if connection.execute(f'FROM "{name}"').to_arrow_table() != rows:
                connection.execute(f'DELETE FROM "{name}"')  # noqa: S608 - names are ours
                insert(connection, {name: rows})


def insert(connection: duckdb.DuckDBPyConnection, tables: Tables) -> None:
    """Append rows by column name, inside the caller's transaction."""
    for name, table in tables.items():
        connection.register("incoming", table)
        try:
            connection.execute(f'INSERT INTO "{name}" BY NAME SELECT * FROM incoming')  # noqa: S608 - names are ours
        finally:
            connection.unregister("incoming")


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


def publish(connection: duckdb.DuckDBPyConnection, master: Path, published: Path) -> None:
    """Replace the published file by a copy of the master. Raises OSError or duckdb.Error and leaves the old file then.

    `connection` holds the master, outside any transaction. Readers that have the old file open keep reading it.
    """
    remove_leftovers(published)
    connection.execute("CHECKPOINT")
    # A new name each time: a `cp` orphaned by kill -9 may still be writing to the previous one.
    copy = published.with_name(_TEMPORARY.format(name=published.name, unique=uuid.uuid4().hex[:8]))
    try:
        _copy(master, copy)
        fsync(copy)
        copy.rename(published)
        fsync(published.parent)
    finally:
        copy.unlink(missing_ok=True)


def remove_leftovers(published: Path) -> None:
    """Remove the copies that an ingester left behind when it was killed while publishing."""
    for leftover in published.parent.glob(_TEMPORARY.format(name=published.name, unique="*")):
        leftover.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    done = subprocess.run(
        ["cp", "--", source.absolute(), target.absolute()], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise OSError(f"{target} could not be written: {done.stderr.strip() or f'cp ended with {done.returncode}'}")
