"""Opening both databases, and refusing one of a wrong revision."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import duckdb
import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from lab.errors import SettingsError, UserError
from warehouse.app_db.schema import APP
from warehouse.ingest.master import duckdb_revision, migrate_master
from warehouse.queries.point_in_time import attaching
from warehouse.schema import revisions
from warehouse.settings import Settings

#: A writer waits this long for another one's transaction; ours take milliseconds.
SQLITE_BUSY_TIMEOUT_MS = 5000
#: Any constant will do: everyone who migrates one PostgreSQL database takes the same lock.
_MIGRATION_LOCK = 4_026_531_841


def app_engine(settings: Settings) -> sa.Engine:
    """The app database, checked to be of this Drafthouse's revision. Raises RevisionError.

    Every transaction of `engine.begin()` or `engine.connect()` may write: on SQLite it begins with BEGIN IMMEDIATE, so
    it waits for others instead of failing half way. For reading alone use `reading(engine)`, which waits for nobody.
    """
    engine = _unchecked_app_engine(settings)
    try:
        revisions.refuse_other_revision("app", _app_name(engine.url), _app_revision(engine))
    except BaseException:
        engine.dispose()
        raise
    return engine


def _app_revision(engine: sa.Engine) -> str | None:
    file = engine.url.database if engine.dialect.name == "sqlite" else None
    if file is not None and not Path(file).exists():  # looking must not create it
        return None
    try:
        with reading(engine).connect() as connection:
            return revisions.current_revision(connection)
    except sa.exc.DBAPIError as error:
        raise UserError(f"{_app_name(engine.url)} cannot be opened: {error.orig}") from None


def reading(engine: sa.Engine) -> sa.Engine:
    """The same engine for transactions that only read: they neither wait for a writer nor hold one up."""
    return engine.execution_options(drafthouse_reads_only=True)


def migrate(settings: Settings) -> None:
    """Make the home, and bring both databases to the newest revision. Does nothing where they are.

    Raises UserError for a home that cannot be written, RevisionError for databases of a newer Drafthouse.
    Threads of one process must not do so at once: Alembic keeps its context in globals.
    """
    make_home(settings)
    engine = _unchecked_app_engine(settings)
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            revisions.upgrade("app", connection, APP, _app_name(engine.url))
    except sa.exc.DBAPIError as error:
        raise UserError(f"{_app_name(engine.url)} cannot be opened: {error.orig}") from None
    finally:
        engine.dispose()
    migrate_master(settings)


def open_warehouse(settings: Settings) -> duckdb.DuckDBPyConnection:
    """The published warehouse for reading: the current one, or the one of a point in time (`queries.point_in_time`).

    Raises UserError where there is none yet.

    Attached rather than opened: `duckdb.connect` would give this process the file of before the last publish for as
    long as anybody in it still has that one open.
    """
    file = settings.warehouse_file
    if not file.exists():
        raise UserError(f"there is no warehouse in {settings.home.absolute()} yet: run `{revisions.MIGRATE_COMMAND}`")
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


def make_home(settings: Settings) -> None:
    """Create the folder of all state. Raises UserError where it cannot be written."""
    try:
        for folder in (settings.home, settings.bundles, settings.logs_dir):
            folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=settings.home):
            pass
    except OSError as error:
        raise UserError(
            f"{settings.home.absolute()} cannot be written ({error.strerror}): make it writable, "
            "or set DRAFTHOUSE_HOME to a folder that is"
        ) from None


def _unchecked_app_engine(settings: Settings) -> sa.Engine:
    try:
        url = sa.make_url(settings.app_database_url)
        engine = sa.create_engine(url)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
        raise SettingsError(
            f"DRAFTHOUSE_DATABASE_URL is no address of a database ({error}): "
            "use sqlite:////absolute/path or postgresql+pg8000://user:password@host/database"
        ) from None
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
    assert isinstance(connection, sqlite3.Connection)  # noqa: S101 - tells mypy what SQLAlchemy's type leaves open
    connection.isolation_level = None  # we begin transactions ourselves, see _begin_sqlite
    connection.execute(f"PRAGMA busy_timeout = {SQLITE_BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")  # a job that was accepted outlives a power cut
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: sa.Connection) -> None:
    """With a plain BEGIN, two readers that both go on to write fail at once in spite of the timeout."""
    reads_only = connection.get_execution_options().get("drafthouse_reads_only", False)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")


def _app_name(url: sa.URL) -> str:
    return f"the app database {url.render_as_string(hide_password=True)}"
