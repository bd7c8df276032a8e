"""The answer to a reader's SQL: as a table to download, and as the chart that the reader puts together."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from lab.errors import QueryError
from warehouse.sandbox import as_frame
from webapp import drawing, sql_data, sql_state
from webapp.about import View
from webapp.charts import free
from webapp.charts.free import Drawn
from webapp.charts.theme import themed
from webapp.params import QUERY
from webapp.sql_data import Answered
from webapp.text import count, literal, number

_NONE = "none"


def show() -> None:
    """DuckDB's own words where it is no question."""
    question = sql_state.current()
    if not question.sql.strip():
        st.caption("Write a SELECT above, or choose an example.")
        return
    try:
        answer = sql_data.answered(question.sql)
        frame = as_frame(answer.table)
    except QueryError as error:
        st.error(literal(error), icon=":material/error:")
        return
    _show_about(answer)
    table, chart = st.tabs(["Table", "Chart"], default="Chart" if question.drawn else "Table")
    with table:
        drawing.show_table(frame, {}, "Answer", View(sql_state.PAGE, {QUERY: (sql_state.link(),)}), "answer")
    with chart:
        _show_chart(frame, question.drawn)


def _show_about(answer: Answered) -> None:
    rows = count(answer.table.num_rows, "row")
    if answer.left_out:
        st.info(f"{answer.left_out.capitalize()}.", icon=":material/content_cut:")
    st.caption(f"{rows}, {count(answer.table.num_columns, 'column')}, {number(answer.took_s, 2)} s")


def _show_chart(frame: pd.DataFrame, drawn: Drawn | None) -> None:
    columns = free.drawable(frame)
    if len(columns) < 2 or frame.empty:
        st.caption("A chart needs rows with two columns of plain values.")
        return
    if drawn is not None and (lost := [column for column in drawn.columns if column not in columns]):
        st.caption(f"The chart asks for {literal(', '.join(lost))}, which the answer has not (any more).")
        drawn = None
    begun = drawn or Drawn("bar", columns[0], columns[-1])
    chosen = _choose(columns, begun)
    if len(frame) > free.MOST_ROWS:
        st.caption(f"Drawn are the first {count(free.MOST_ROWS, 'row')}.")
    st.altair_chart(themed(free.chart(frame, chosen), drawing.mode()), theme=None)
    if chosen != begun:
        sql_state.draw(chosen)


def _choose(columns: list[str], drawn: Drawn) -> Drawn:
    marks, x, y, colour = st.columns(4)
    mark = marks.selectbox("Mark", free.MARKS, free.MARKS.index(drawn.mark))
    across = x.selectbox("x", columns, columns.index(drawn.x))
    up = y.selectbox("y", columns, columns.index(drawn.y))
    hues = [_NONE, *columns]
    hue = colour.selectbox("Colour", hues, 0 if drawn.colour is None else hues.index(drawn.colour))
    return Drawn(mark, across, up, None if hue == _NONE else hue)
