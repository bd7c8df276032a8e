"""Answers of DuckDB as rows of Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb

Row = dict[str, Any]


def dicts(con: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[object] = ()) -> list[Row]:
    """The rows of an answer as dicts."""
    answer = con.execute(sql, list(parameters))
    names = [column[0] for column in answer.description or ()]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
