"""DuckDB's results as Python rows, and the relation that requests are read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import duckdb

Row = dict[str, Any]
_Key = TypeVar("_Key", int, str)


def dicts(con: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
    """Return the rows of a result as dicts."""
    answer = con.execute(sql, list(parameters))
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def parallel(groups: Mapping[_Key, Sequence[str]]) -> list[object]:
    """Return two parallel lists, as parameters of a query: run ids, and the key of the group that each run is in."""
    pairs = [(run_id, key) for key, run_ids in groups.items() for run_id in run_ids]
    return [[run_id for run_id, _ in pairs], [key for _, key in pairs]]


def records_of(con: duckdb.DuckDBPyConnection, run_ids: Sequence[str]) -> str:
    """Return what to read the requests of these runs from, in SQL: `request_records`, limited to the time of these runs
    if it is known when they began. The rows are still to be chosen by their run_id.
    """
    first, last = con.execute(_BEGUN, [list(run_ids)]).fetchone() or (None, None)
    if first is None:
        return "request_records"
    begun = f"run_started_at BETWEEN TIMESTAMPTZ '{first}' AND TIMESTAMPTZ '{last}'"
    return f"(SELECT * FROM request_records WHERE {begun})"  # noqa: S608 - no text of a user is in it


#: When the first and the last of some runs began; no row if one of them is unknown.
_BEGUN = """
    SELECT min(started_at)::TEXT, max(started_at)::TEXT FROM runs
    WHERE list_contains(?, run_id) HAVING bool_and(started_at IS NOT NULL)
"""
