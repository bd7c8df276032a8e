"""The warehouse as of a point in time: only runs that had ended by then, with everything that belongs to them.

Each such run is shown as it is today: its verdict, its figures and the state of its job are the current ones. A run
whose start is unknown (an imported file may not record it) is left out. An imported run counts from when it ran, not
from when it was imported. Published figures are visible at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from lab.errors import UserError

_SEEN: ContextVar[datetime | None] = ContextVar("warehouse_as_of", default=None)
#: The file's name in DuckDB if queries go to views on it.
_FILE = "published_file"
#: These tables have a column run_id too, but their runs are not in `runs`.
_AT_ALL_TIMES = "published_"
_OF_RUNS = "WHERE run_id IN (SELECT run_id FROM runs)"


@contextmanager
def as_of(moment: datetime | None) -> Iterator[None]:
    """Within this context, `open_warehouse` and `run_sql` see the warehouse as of `moment`; None means now.

    Raises UserError for a moment without a time zone. Threads started within see the warehouse as it is now.
    """
    if moment is not None and moment.tzinfo is None:
        raise UserError(f"{moment.isoformat()} has no time zone")
    token = _SEEN.set(None if moment is None else moment.astimezone(UTC))
    try:
        yield
    finally:
        _SEEN.reset(token)


def seen_as_of() -> datetime | None:
    """Return the point in time of the current context, in UTC; None means now."""
    return _SEEN.get()


def attaching(file: str) -> list[str]:
    """Return statements that attach this file read-only as the connection's warehouse, as of the context's moment.

    As of a point in time, the database named `warehouse` consists of views, so that no name in a query (`runs`,
    `main.runs`, `warehouse.main.runs`) reaches a run that had not ended by then.
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
    """Yield views on all tables; the view on `runs` comes first, because the others read it."""
    from warehouse.schema.tables import WAREHOUSE  # noqa: PLC0415 - SQLAlchemy, which the warehouse of now does without
    from warehouse.schema.views import REQUEST_RECORDS, VIEWS  # noqa: PLC0415 - likewise

    def is_of_runs(table: str) -> bool:
        return "run_id" in WAREHOUSE.tables[table].columns and not table.startswith(_AT_ALL_TIMES)

    tables = [name for name in WAREHOUSE.tables if name != "runs"]
    judged = f"WHERE epoch(judged_at) <= {moment.timestamp()!r}"  # before, verdicts are computed
    ended = f"epoch(started_at) + coalesce(window_s, 0) <= {moment.timestamp()!r}"
    return [
        _view("runs", f"WHERE {ended}"),
        _view("alembic_version", ""),
        *(_view(name, _OF_RUNS if is_of_runs(name) else judged if name == "judgements" else "") for name in tables),
        *(_view(view.name, _OF_RUNS) if view is REQUEST_RECORDS else view.sql for view in VIEWS),
    ]


def _view(table: str, condition: str) -> str:
    return f'CREATE VIEW "{table}" AS SELECT * FROM {_FILE}.main."{table}" {condition}'  # noqa: S608 - names of ours
