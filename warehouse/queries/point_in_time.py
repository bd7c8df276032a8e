"""The warehouse as of a moment: only runs that had ended by then, with all that hangs on them.

Each such run is seen as it stands today. A verdict that was reached later, a figure that a later Drafthouse computes
otherwise, and the state of a job are today's. A run whose start is unknown (an imported file may not tell it) is left
out, because nobody can say whether it had ended. A run that was imported counts from when it ran, not from when it was
imported. What others published is in the warehouse at all times.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from lab.errors import UserError

_SEEN: ContextVar[datetime | None] = ContextVar("warehouse_as_of", default=None)
#: Under which name the file is attached when what is asked are views on it.
_FILE = "published_file"
#: These too have a column run_id, but no run of `runs`.
_AT_ALL_TIMES = "published_"


@contextmanager
def as_of(moment: datetime | None) -> Iterator[None]:
    """Within it every `open_warehouse` and `run_sql` sees the warehouse so; None: as it is now.

    Raises UserError for a moment without a time zone. A thread that is started within sees the warehouse as it is now.
    """
    if moment is not None and moment.tzinfo is None:
        raise UserError(f"{moment.isoformat()} has no time zone")
    token = _SEEN.set(None if moment is None else moment.astimezone(UTC))
    try:
        yield
    finally:
        _SEEN.reset(token)


def seen_as_of() -> datetime | None:
    """The moment that holds here, in UTC; None: now."""
    return _SEEN.get()


def attaching(file: str) -> list[str]:
    """The statements that make this file the warehouse of a connection, read-only, as of the moment that holds here.

    As of a moment the database named `warehouse` is one of views, so that no name in a question (`runs`, `main.runs`,
    `warehouse.main.runs`) means more than had ended by then.
    """
    moment, quoted = seen_as_of(), file.replace("'", "''")
    if moment is None:
        return [f"ATTACH '{quoted}' AS warehouse (READ_ONLY)", "USE warehouse"]
    return [
        f"ATTACH '{quoted}' AS {_FILE} (READ_ONLY)",
        "ATTACH ':memory:' AS warehouse",
        "USE warehouse",
        *_views(moment),
    ]


def _views(moment: datetime) -> list[str]:
    """The table of runs first: the others ask it."""
    from warehouse.schema.tables import WAREHOUSE  # noqa: PLC0415 - SQLAlchemy, which the warehouse of now does without
    from warehouse.schema.views import VIEWS  # noqa: PLC0415 - likewise

    def is_of_runs(table: str) -> bool:
        return "run_id" in WAREHOUSE.tables[table].columns and not table.startswith(_AT_ALL_TIMES)

    tables = [name for name in WAREHOUSE.tables if name != "runs"]
    ended = f"epoch(started_at) + coalesce(window_s, 0) <= {moment.timestamp()!r}"
    return [
        _view("runs", f"WHERE {ended}"),
        _view("alembic_version", ""),
        *(_view(name, "WHERE run_id IN (SELECT run_id FROM runs)" if is_of_runs(name) else "") for name in tables),
        *(view.sql for view in VIEWS),
    ]


def _view(table: str, condition: str) -> str:
    return f'CREATE VIEW "{table}" AS SELECT * FROM {_FILE}.main."{table}" {condition}'  # noqa: S608 - names of ours
