"""The figures of the SQL page, from its link's parameters alone: the chart of an answer, and the answer as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from lab.errors import QueryError
from warehouse.app_db import saved_views
from webapp.charts import custom, panels
from webapp.charts.custom import Drawn
from webapp.charts.panels import Figure
from webapp.charts.theme import ArmStyle, Mode
from webapp.pages.sql import data as sql_data
from webapp.pages.sql import state
from webapp.pages.sql.examples import EXAMPLES
from webapp.shared import published_data
from webapp.shared.text import count
from webapp.shared.url_params import QUERY

CHART, TABLE = "chart", "table"
_ARM = "arm"
_COMMENT = "--"
_MOST_TITLE_LETTERS = 80
_MOST_KEPT = 32


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """The chart, where the question says how it is drawn, and the table.

    Raises QueryError for a question that is not kept or not answered, UserError without a warehouse.
    """
    (view_id,) = parameters[QUERY]
    question = state.kept(view_id)
    if question is None:
        raise QueryError(f"the query {view_id} is not here (any more)")
    answer = sql_data.answered(question.sql)
    frame, title = answer.frame, title_of(question.sql, view_id)
    first = "the first " if answer.left_out else ""
    table = Figure(TABLE, title, f"{first}{count(len(frame), 'row')}", (), (), frame)
    return [table] if question.drawn is None else [kept_chart(question.sql, question.drawn, title, mode), table]


def kept_chart(sql: str, how: Drawn, title: str, mode: Mode) -> Figure:
    """Of what the warehouse answers to the SQL, made once for all visitors. Raises QueryError."""
    return _kept_chart(published_data.publication(), sql, how, title, mode)


@st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
def _kept_chart(publication: published_data.Publication, sql: str, how: Drawn, title: str, mode: Mode) -> Figure:
    del publication
    return chart(sql_data.answered(sql).frame, how, title, mode)


def chart(frame: pd.DataFrame, how: Drawn, title: str, mode: Mode) -> Figure:
    """Without a panel, and with a note that says why, where a column is not there (any more) or there is no row."""
    drawable = custom.drawable(frame)
    if lost := [column for column in how.columns if column not in drawable]:
        note = f"the chart asks for {', '.join(lost)}, which the answer has not (any more)"
        return Figure(CHART, title, note, (), (), frame)
    if frame.empty:
        return Figure(CHART, title, "the answer has no rows", (), (), frame)
    note = f"{how.y} by {how.x}" if how.colour is None else f"{how.y} by {how.x}, for each {how.colour}"
    if len(frame) > custom.MOST_ROWS:
        note += f"; the first {count(custom.MOST_ROWS, 'row')}"
    return Figure(CHART, title, note, (), (("", custom.chart(frame, how, _arm_styles(frame, how, mode))),), frame)


def _arm_styles(frame: pd.DataFrame, how: Drawn, mode: Mode) -> tuple[ArmStyle, ...]:
    """The looks that the arms have on other pages; none where the colours tell no arms of the newest study apart."""
    studies = published_data.studies_with_results()
    if how.colour != _ARM or studies.empty:
        return ()
    job_id, names = str(studies["job_id"].iloc[0]), set(frame[_ARM])
    runs = published_data.results(job_id)
    known = panels.styles_of(runs.assign(is_baseline=runs["is_baseline"].eq(True)), mode, published_data.arms(job_id))
    found = tuple(style for style in known if style.arm in names)
    return found if len(found) == len(names) else ()


def title_of(sql: str, view_id: str) -> str:
    """The name that somebody gave it, the example's that it is, the comment it begins with, or the id of its link."""
    named = [
        each.name for each in saved_views.named_views(published_data.engine(), state.PAGE) if each.view_id == view_id
    ]
    if named := named or [each.title for each in EXAMPLES if each.sql == sql]:
        return named[0]
    begin = sql.strip().partition("\n")[0]
    comment = begin.removeprefix(_COMMENT).strip()[:_MOST_TITLE_LETTERS] if begin.startswith(_COMMENT) else ""
    return comment[:1].upper() + comment[1:] if comment else f"Query {view_id}"
