"""The app database's clock. Leases and expiry go by it, because the clocks of several hosts differ."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


class database_now_s(FunctionElement[float]):  # noqa: N801 - reads as a function of SQL, like sa.func.now
    """The database's time in seconds since 1970 UTC, when the statement is executed and not when its transaction
    began.
    """

    type = sa.Double()
    inherit_cache = True


@compiles(database_now_s, "sqlite")
def _on_sqlite(_element: database_now_s, _compiler: Any, **_options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(database_now_s, "postgresql")
def _on_postgresql(_element: database_now_s, _compiler: Any, **_options: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS DOUBLE PRECISION)"


def now_and_behind_s(connection: sa.Connection) -> tuple[datetime, float]:
    """Return the database's time, and by how many seconds it is ahead of this host's: what has to be added to this
    host's times.
    """
    before_s = time.time()
    now = database_now(connection)
    return now, now.timestamp() - (before_s + time.time()) / 2


def database_now(connection: sa.Connection) -> datetime:
    """Return the database's time."""
    return datetime.fromtimestamp(connection.execute(sa.select(database_now_s())).scalar_one(), UTC)
