"""The data of the SQL page: answers to a reader's SQL, and the description of the warehouse's tables."""

from __future__ import annotations

import time
from dataclasses import dataclass

import duckdb
import pandas as pd
import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from access.web import visitor
from host.settings import Settings
from lab.roles import Actor
from warehouse.sandbox.query_limits import QUERY_LIMITS
from warehouse.sandbox.runner import SqlResult, as_frame, asks_for_audit, run_sql
from warehouse.schema.dictionary import relations
from webapp.charts import custom
from webapp.charts.custom import ChartSpec
from webapp.charts.custom_columns import drawable, with_floats
from webapp.shared import published_data
from webapp.shared.published_data import cached_by_publication, published_query

#: Most values of an answer, which may have ten thousand rows: a bit in Arrow is eight bytes or more in a data frame.
_MAX_ANSWERS, _MAX_VALUES = 16, 500_000
_STOP_POINT = "sql-stop-point"


@dataclass(frozen=True)
class Answer:
    """The answer to a reader's SQL, shared by all visitors and therefore never to be changed.

    `drawable`: the columns a chart can use. `chart`: the one that fits them; None without rows or
    with fewer than two such columns. `left_out`: a sentence if there are more rows than these.
    """

    frame: pd.DataFrame
    drawable: list[str]
    chart: ChartSpec | None
    left_out: str
    duration_s: float


@published_query(1)
def tables(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str, list[tuple[str, str, str]]]]:
    """Return the warehouse's tables and their columns, views first, without the migrations' own table."""
    return [relation for relation in relations(connection) if relation[0] != "alembic_version"]


@cached_by_publication(_MAX_ANSWERS, spinner="Running the query")
def answer(sql: str, values: tuple[tuple[str, str], ...] = ()) -> Answer:
    """Run the reader's SQL on the warehouse, with the values of its parameters. Raises QueryError with DuckDB's
    message.
    """
    result, duration_s = _run(published_data.settings(), sql, values=values)
    frame = as_frame(result.table)
    columns = drawable(frame)
    chart = None if len(columns) < 2 or frame.empty else custom.automatic(with_floats(frame))
    return Answer(frame, columns, chart, result.left_out, duration_s)


def audit_answer(sql: str, actor: Actor) -> pd.DataFrame | None:
    """Return the answer to a query of the audit table if this actor may read it; None for any other query.

    Never cached, drawn or pinned, since all visitors see those answers.
    """
    if not asks_for_audit(sql, actor):
        return None
    return as_frame(_run(published_data.settings(), sql, actor)[0].table)


def _let_reader_stop() -> None:
    """End this run of the page's script if the reader has clicked: accessing the state raises Streamlit's stop."""
    st.session_state.get(_STOP_POINT)


def _run(
    settings: Settings, sql: str, actor: Actor | None = None, values: tuple[tuple[str, str], ...] = ()
) -> tuple[SqlResult, float]:
    """Return the result and the seconds that it took.

    Raises QueryError as `run_sql` does, and if other queries take all slots of the sandbox for too long.
    """
    with QUERY_LIMITS.running(_visitor(), settings.sql_timeout_s):
        start_s = time.perf_counter()
        result = run_sql(settings, sql, while_waiting=_let_reader_stop, actor=actor, parameters=dict(values))
        return _within_values(result), time.perf_counter() - start_s


def _within_values(result: SqlResult) -> SqlResult:
    most = max(1, _MAX_VALUES // max(1, len(result.columns)))
    if result.table.num_rows <= most:
        return result
    left_out = f"only the first {most:,} rows are shown: more would exceed {_MAX_VALUES:,} values"
    return SqlResult(result.table.slice(0, most), left_out)


def _visitor() -> str:
    """Name who runs a query: the user, the browser session where nobody signs in, or all shared links together."""
    context = get_script_run_ctx(suppress_warning=True)
    if context is None:
        return "shared links"
    return visitor.actor().name if visitor.has_signed_in() else context.session_id
