"""The answer to a query: as a table to download, and as a chart of the reader's choice."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from lab.errors import QueryError
from webapp.charts import custom
from webapp.charts.custom import ChartSpec
from webapp.pages.dashboards import pin_dialog
from webapp.pages.sql import data, figures, state
from webapp.pages.sql.data import Answer
from webapp.pages.sql.state import Query
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import show_table
from webapp.shared.text import count, literal, number
from webapp.shared.url_params import QUERY, View

_NONE = "none"


def show() -> None:
    """The answer, or DuckDB's error message."""
    query = state.current()
    if not query.sql.strip():
        st.caption("Write a SELECT statement above, or choose an example.")
        return
    try:
        answer = data.answer(query.sql)
    except QueryError as error:
        st.error(literal(error), icon=":material/error:")
        return
    _show_size(answer)
    table, chart = st.tabs(["Table", "Chart"], default="Chart" if query.chart else "Table")
    with table:
        _show_table(answer.frame, query)
    with chart:
        _show_chart(answer, query)


def _show_table(frame: pd.DataFrame, query: Query) -> None:
    view_id = state.save(query)
    title, view = figures.title_of(query.sql, view_id), View(state.PAGE, {QUERY: (view_id,)})
    show_table(frame, {}, title, view, "answer")
    pin_dialog.show_button(title, view, figures.TABLE, "Pin the table")


def _show_size(answer: Answer) -> None:
    rows = count(len(answer.frame), "row")
    if answer.left_out:
        st.info(f"{answer.left_out.capitalize()}.", icon=":material/content_cut:")
    st.caption(f"{rows}, {count(len(answer.frame.columns), 'column')}, {number(answer.duration_s, 2)} s")


def _show_chart(answer: Answer, query: Query) -> None:
    initial, columns = query.chart, answer.drawable
    if len(columns) < 2 or answer.frame.empty:
        st.caption("A chart needs at least one row, and two columns of plain values.")
        return
    if initial is not None and (missing := [column for column in initial.columns if column not in columns]):
        st.caption(f"The chart uses {literal(', '.join(missing))}, which the answer does not contain.")
        initial = None
    initial = initial or ChartSpec("bar", columns[0], columns[-1])
    chosen = _choose(columns, initial)
    view_id = state.save(Query(query.sql, chosen))
    mode, title = colour_mode(), figures.title_of(query.sql, view_id)
    figure = figures.cached_chart(query.sql, chosen, title, mode)
    show_figures([figure], mode, View(state.PAGE, {QUERY: (view_id,)}))
    if chosen != initial:
        state.set_chart(chosen)


def _choose(columns: list[str], initial: ChartSpec) -> ChartSpec:
    mark, x, y, colour = st.columns(4)
    colours = [_NONE, *columns]
    chosen_colour = colour.selectbox("Colour", colours, 0 if initial.colour is None else colours.index(initial.colour))
    return ChartSpec(
        mark.selectbox("Mark", custom.MARKS, custom.MARKS.index(initial.mark)),
        x.selectbox("x", columns, columns.index(initial.x)),
        y.selectbox("y", columns, columns.index(initial.y)),
        None if chosen_colour == _NONE else chosen_colour,
    )
