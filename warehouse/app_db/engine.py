"""The connection to the app database, SQLite or PostgreSQL; a database of another revision is refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from lab.errors import SettingsError, UserError
from warehouse.app_db.schema import APP
from warehouse.schema import revisions

#: How long a SQLite writer waits for another transaction; ours take milliseconds.
SQLITE_BUSY_TIMEOUT_MS = 5000
#: Any constant will do: everyone who migrates one PostgreSQL database takes the same lock.
_MIGRATION_LOCK = 4_026_531_841


def app_engine(url: str) -> sa.Engine:
    """Connect to the app database and check its revision. Raises RevisionError.

    Every transaction of `engine.begin()` or `engine.connect()` may write: on SQLite it begins with BEGIN IMMEDIATE, so
    it waits for others instead of failing half way. For reading alone use `reading(engine)`, which never waits.
    """
    engine = _unchecked_engine(url)
    try:
        revisions.refuse_other_revision("app", _display_name(engine.url), _revision(engine))
    except BaseException:
        engine.dispose()
        raise
    return engine


def reading(engine: sa.Engine) -> sa.Engine:
    """Return the engine for read-only transactions: they neither wait for a writer nor block one."""
    return engine.execution_options(drafthouse_reads_only=True)


def migrate_app(url: str) -> None:
    """Bring the app database to the newest revision. Raises RevisionError for a newer one, UserError if it is away."""
    engine = _unchecked_engine(url)
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
            revisions.upgrade("app", connection, APP, _display_name(engine.url))
    except sa.exc.DBAPIError as error:
        raise UserError(f"{_display_name(engine.url)} cannot be opened: {error.orig}") from None
    finally:
        engine.dispose()


def _revision(engine: sa.Engine) -> str | None:
    file = engine.url.database if engine.dialect.name == "sqlite" else None
    if file is not None and not Path(file).exists():  # connecting would create it
        return None
    try:
        with reading(engine).connect() as connection:
            return revisions.current_revision(connection)
    except sa.exc.DBAPIError as error:
        raise UserError(f"{_display_name(engine.url)} cannot be opened: {error.orig}") from None


def _unchecked_engine(url: str) -> sa.Engine:
    try:
        engine = sa.create_engine(sa.make_url(url))
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
        raise SettingsError(
            f"DRAFTHOUSE_DATABASE_URL is not a database URL ({error}): "
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
    connection.execute("PRAGMA synchronous = FULL")  # an accepted job survives a power cut
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: sa.Connection) -> None:
    """Begin IMMEDIATE: with a plain BEGIN two transactions that first read, then write, fail despite the timeout."""
    reads_only = connection.get_execution_options().get("drafthouse_reads_only", False)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")


def _display_name(url: sa.URL) -> str:
    return f"the app database {url.render_as_string(hide_password=True)}"
