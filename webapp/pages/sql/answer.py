"""The answer to a reader's SQL: as a table to download, and as the chart that the reader puts together."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from lab.errors import QueryError
from webapp.charts import custom
from webapp.charts.custom import Drawn
from webapp.pages.dashboards import pin_dialog
from webapp.pages.sql import data, figures, state
from webapp.pages.sql.data import Answered
from webapp.pages.sql.state import Question
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import show_table
from webapp.shared.text import count, literal, number
from webapp.shared.url_params import QUERY, View

_NONE = "none"


def show() -> None:
    """DuckDB's own words where it is no question."""
    question = state.current()
    if not question.sql.strip():
        st.caption("Write a SELECT above, or choose an example.")
        return
    try:
        answer = data.answered(question.sql)
    except QueryError as error:
        st.error(literal(error), icon=":material/error:")
        return
    _show_about(answer)
    table, chart = st.tabs(["Table", "Chart"], default="Chart" if question.drawn else "Table")
    with table:
        _show_table(answer.frame, question)
    with chart:
        _show_chart(answer, question)


def _show_table(frame: pd.DataFrame, question: Question) -> None:
    link = state.link()
    title, view = figures.title_of(question.sql, link), View(state.PAGE, {QUERY: (link,)})
    show_table(frame, {}, title, view, "answer")
    pin_dialog.show_button(title, view, figures.TABLE, "Pin the table")


def _show_about(answer: Answered) -> None:
    rows = count(len(answer.frame), "row")
    if answer.left_out:
        st.info(f"{answer.left_out.capitalize()}.", icon=":material/content_cut:")
    st.caption(f"{rows}, {count(len(answer.frame.columns), 'column')}, {number(answer.took_s, 2)} s")


def _show_chart(answer: Answered, question: Question) -> None:
    drawn, columns = question.drawn, answer.drawable
    if len(columns) < 2 or answer.frame.empty:
        st.caption("A chart needs rows with two columns of plain values.")
        return
    if drawn is not None and (lost := [column for column in drawn.columns if column not in columns]):
        st.caption(f"The chart asks for {literal(', '.join(lost))}, which the answer has not (any more).")
        drawn = None
    begun = drawn or Drawn("bar", columns[0], columns[-1])
    chosen = _choose(columns, begun)
    link = state.link_of(Question(question.sql, chosen))
    mode, title = colour_mode(), figures.title_of(question.sql, link)
    figure = figures.kept_chart(question.sql, chosen, title, mode)
    show_figures([figure], mode, View(state.PAGE, {QUERY: (link,)}))
    if chosen != begun:
        state.draw(chosen)


def _choose(columns: list[str], drawn: Drawn) -> Drawn:
    marks, x, y, colour = st.columns(4)
    mark = marks.selectbox("Mark", custom.MARKS, custom.MARKS.index(drawn.mark))
    across = x.selectbox("x", columns, columns.index(drawn.x))
    up = y.selectbox("y", columns, columns.index(drawn.y))
    hues = [_NONE, *columns]
    hue = colour.selectbox("Colour", hues, 0 if drawn.colour is None else hues.index(drawn.colour))
    return Drawn(mark, across, up, None if hue == _NONE else hue)
