"""The connection to the app database, SQLite or PostgreSQL; a database of another revision is refused."""

from __future__ import annotations

import contextlib
import math
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext
from sqlalchemy.pool import ConnectionPoolEntry

from lab.errors import SettingsError, UserError
from warehouse.app_db import worker_rights
from warehouse.app_db.schema import APP
from warehouse.schema import revisions

#: How long a SQLite writer waits for another transaction; ours take milliseconds, but on a busy machine their process
#: may wait for a processor in the middle of one.
SQLITE_BUSY_TIMEOUT_MS = 60_000
#: An arbitrary constant: everyone who migrates one PostgreSQL database takes the same lock.
_MIGRATION_LOCK = 4_026_531_841
#: What SQLAlchemy raises when the database does not answer, whatever the driver's own class: wait and ask again. Also
#: what a database of another revision answers, which `refuse_newer_database` tells apart.
DATABASE_ERRORS = (sa.exc.DBAPIError, sa.exc.TimeoutError)
#: PostgreSQL's code for what a role may not do (insufficient_privilege).
_NOT_ALLOWED = "42501"
#: How PostgreSQL is reached unless the URL says otherwise. Parameters of libpq: a connection whose packets vanish ends
#: after some seconds, not after the 15 minutes and more of TCP.
_PATIENCE = {
    "connect_timeout": "5",
    "tcp_user_timeout": "5000",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
}
#: Our transactions take milliseconds. So the server compiles no query, which takes longer, and ends a transaction whose
#: client is gone, and with it the locks on the client's job, unless server, role or URL set another limit. The result
#: is whether more than two thirds of the server's connections are in use, which every role may count.
_SHORT_TRANSACTIONS = (
    "SELECT set_config('jit', 'off', false), CASE current_setting('idle_in_transaction_session_timeout')"
    " WHEN '0' THEN set_config('idle_in_transaction_session_timeout', '10s', false) END,"
    " 3 * (SELECT count(datid) FROM pg_stat_activity) > 2 * current_setting('max_connections')::int"
)
#: Until when a connection of `gives_way` is kept, and for how long its count of the server's connections holds.
_KEPT_UNTIL_S, _COUNT_HOLDS_S = "kept_until_s", 60.0


def app_engine(url: str, *, connections: tuple[int, int] = (5, 10), gives_way: bool = False) -> sa.Engine:
    """Connect to the app database and check its revision. Raises RevisionError.

    `connections`: how many a process keeps to PostgreSQL, and how many more it may open for a moment. With `gives_way`
    it keeps none while the server has few left, which it counts once a minute: each transaction then opens its own.

    Every transaction of `engine.begin()` or `engine.connect()` may write: on SQLite it begins with BEGIN IMMEDIATE, so
    it waits for others instead of failing half way. For reading alone use `reading(engine)`, which never waits.
    """
    engine = _unchecked_engine(url, connections)
    if gives_way:
        sa.event.listen(engine, "checkin", _end_unless_kept)
    try:
        revisions.refuse_other_revision("app", _display_name(engine.url), _revision(engine))
    except BaseException:
        engine.dispose()
        raise
    return engine


@contextlib.contextmanager
def open_engine(url: str, *, connections: tuple[int, int] = (5, 10)) -> Iterator[sa.Engine]:
    """Connect to the app database for the block alone. Raises RevisionError."""
    engine = app_engine(url, connections=connections)
    try:
        yield engine
    finally:
        engine.dispose()


@contextlib.contextmanager
def excluding(engine: sa.Engine, lock: int) -> Iterator[sa.Connection]:
    """Hold a transaction that excludes others with the same lock, so that nobody undoes another's change."""
    with engine.begin() as connection:
        _lock(connection, lock)
        yield connection


def _lock(connection: sa.Connection, lock: int) -> None:
    """Take a lock of the database until the transaction ends; on SQLite every transaction excludes all others."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock)))


def reading(engine: sa.Engine) -> sa.Engine:
    """Return the engine for read-only transactions: they neither wait for a writer nor block one."""
    return engine.execution_options(drafthouse_reads_only=True)


def database_words(error: Exception) -> str:
    """Return the database's or driver's own message in one of DATABASE_ERRORS, without the statement."""
    cause = getattr(error, "orig", None) or error
    if getattr(cause, "sqlstate", None) == _NOT_ALLOWED:
        refused = str(cause).partition("\n")[0]
        return f"{refused}: with the keys of a worker host, do it on the page's host"
    return str(cause).strip()


def refuse_newer_database(engine: sa.Engine) -> None:
    """Raise RevisionError if a newer Drafthouse has migrated the database since `app_engine` connected to it."""
    with reading(engine).connect() as connection:
        current: str | None = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar()
    revisions.refuse_other_revision("app", "the app database", current)


def migrate_app(url: str) -> None:
    """Bring the app database to the newest revision. Raises RevisionError for a newer one, UserError if it cannot be
    reached.
    """
    engine = _unchecked_engine(url)
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":  # it loads code between its statements, on a busy host for long
                connection.execute(sa.text("SET LOCAL idle_in_transaction_session_timeout = '10min'"))
            _lock(connection, _MIGRATION_LOCK)
            revisions.upgrade("app", connection, APP, _display_name(engine.url))
            if engine.dialect.name == "postgresql":
                worker_rights.renew(connection)
    except DATABASE_ERRORS as error:
        raise UserError(f"{_display_name(engine.url)} cannot be opened: {database_words(error)}") from None
    finally:
        engine.dispose()


def _revision(engine: sa.Engine) -> str | None:
    file = engine.url.database if engine.dialect.name == "sqlite" else None
    if file is not None and not Path(file).exists():  # connecting would create it
        return None
    try:
        with reading(engine).connect() as connection:
            return revisions.current_revision(connection)
    except DATABASE_ERRORS as error:
        raise UserError(f"{_display_name(engine.url)} cannot be opened: {database_words(error)}") from None


def _unchecked_engine(url: str, connections: tuple[int, int] = (1, 0)) -> sa.Engine:
    try:
        parsed = sa.make_url(url)
        is_postgresql = parsed.get_backend_name() == "postgresql"
        engine = _postgresql_engine(parsed, connections) if is_postgresql else sa.create_engine(parsed)
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError) as error:
        raise SettingsError(
            f"DRAFTHOUSE_DATABASE_URL is not a database URL ({error}): "
            "use sqlite:////absolute/path or postgresql+psycopg://user:password@host/database"
        ) from None
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
    sa.event.listen(engine, "handle_error", _refuse_impossible)
    return engine


def _refuse_impossible(context: ExceptionContext) -> None:
    """Raise UserError for a value that no column can hold, such as a NUL in PostgreSQL: the database does answer."""
    is_refused = isinstance(context.sqlalchemy_exception, sa.exc.DataError)
    if is_refused or isinstance(context.original_exception, OverflowError):
        why = str(context.original_exception).partition("\n")[0]
        raise UserError(f"the app database can hold no such value ({why}): change it") from None


def _postgresql_engine(url: sa.URL, connections: tuple[int, int]) -> sa.Engine:
    """Connect by psycopg, whatever driver the URL names.

    Statements are not prepared on the server: a proxy may hand each transaction to another of its connections, and a
    migration would make prepared ones invalid.
    """
    ours = {name: value for name, value in _PATIENCE.items() if name not in url.query}
    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args=ours | {"prepare_threshold": None},
        pool_pre_ping=True,
        pool_size=connections[0],
        max_overflow=connections[1],
    )
    sa.event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_postgresql(connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute(_SHORT_TRANSACTIONS)
    if (row := cursor.fetchone()) is not None:
        record.info[_KEPT_UNTIL_S] = 0.0 if row[2] else time.monotonic() + _COUNT_HOLDS_S
    connection.commit()


def _end_unless_kept(_connection: DBAPIConnection | None, record: ConnectionPoolEntry) -> None:
    if time.monotonic() >= record.info.get(_KEPT_UNTIL_S, math.inf):
        record.close()


def _prepare_sqlite(connection: DBAPIConnection, _record: ConnectionPoolEntry) -> None:
    assert isinstance(connection, sqlite3.Connection)  # noqa: S101 - tells mypy what SQLAlchemy's type leaves open
    connection.isolation_level = None  # we begin transactions ourselves, see _begin_sqlite
    connection.execute(f"PRAGMA busy_timeout = {SQLITE_BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")  # an accepted job survives a power cut
    connection.execute("PRAGMA foreign_keys = ON")
    connection.create_function("lower", 1, _lower, deterministic=True)  # SQLite's own leaves `Ü` as it is


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _begin_sqlite(connection: sa.Connection) -> None:
    """Begin IMMEDIATE: with a plain BEGIN two transactions that first read, then write, fail despite the timeout."""
    reads_only = connection.get_execution_options().get("drafthouse_reads_only", False)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")


def _display_name(url: sa.URL) -> str:
    return f"the app database {url.render_as_string(hide_password=True)}"
