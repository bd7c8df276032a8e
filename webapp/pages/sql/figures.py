"""The figures of the SQL page, drawn from its link alone: the chart of an answer, and the answer as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from lab.errors import QueryError
from warehouse.app_db import saved_views
from webapp.charts import custom
from webapp.charts.custom import ChartSpec
from webapp.charts.custom_columns import drawable, interval_of, with_floats
from webapp.charts.panels import Figure
from webapp.charts.theme import ArmStyle, Mode, arm_styles
from webapp.pages.sql import data as sql_data
from webapp.pages.sql import state
from webapp.pages.sql.state import EXAMPLES, Query
from webapp.shared import published_data
from webapp.shared.published_data import cached_by_publication
from webapp.shared.text import count
from webapp.shared.url_params import QUERY

CHART, TABLE = "chart", "table"
_ARM = "arm"
_COMMENT = "--"
_MAX_TITLE_LETTERS = 80
_MAX_CHARTS = 32


def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw the chart, if the query has one, and the table. Raises QueryError for an unknown or invalid query, UserError
    without a warehouse.
    """
    (view_id,) = parameters[QUERY]
    query = state.saved(view_id)
    if query is None:
        raise QueryError(f"the query {view_id} does not exist")
    answer = sql_data.answer(query.sql, query.given)
    frame, title = answer.frame, title_of(query.sql, view_id)
    first = "the first " if answer.left_out else ""
    table = Figure(TABLE, title, f"{first}{count(len(frame), 'row')}", (), (), frame)
    return [table] if query.chart is None else [cached_chart(query, query.chart, title, mode), table]


@cached_by_publication(_MAX_CHARTS)
def cached_chart(query: Query, spec: ChartSpec, title: str, mode: Mode) -> Figure:
    """Return the chart of the query's answer. Raises QueryError for an invalid query."""
    return chart(sql_data.answer(query.sql, query.given).frame, spec, title, mode)


def chart(frame: pd.DataFrame, spec: ChartSpec, title: str, mode: Mode) -> Figure:
    """Return the chart as a figure; without rows or with a missing column, one without a panel whose note says why."""
    frame, columns = with_floats(frame), drawable(frame)
    if missing := [column for column in spec.columns if column not in columns]:
        note = f"the chart uses {', '.join(missing)}, which the answer does not contain"
        return Figure(CHART, title, note, (), (), frame)
    if frame.empty:
        return Figure(CHART, title, "the answer has no rows", (), (), frame)
    drawn = custom.panels(frame, spec, mode, _arm_styles(frame, spec, mode))
    return Figure(CHART, title, _note(frame, spec), (), drawn, frame)


def _note(frame: pd.DataFrame, spec: ChartSpec) -> str:
    """Say what the chart shows, and what would mislead its reader: rows cut off, or drawn over each other."""
    note = f"{spec.y} by {spec.x}" if spec.colour is None else f"{spec.y} by {spec.x}, for each {spec.colour}"
    if (interval := interval_of(frame, spec.y)) is not None:
        note += f", with {interval[0]} to {interval[1]}"
    if len(frame) > custom.MOST_ROWS:
        note += f"; the first {count(custom.MOST_ROWS, 'row')}"
    if spec.mark != "point" and (shared := custom.shared_positions(frame.head(custom.MOST_ROWS), spec)):
        note += (
            f"; {count(shared, 'row')} of equal {' and '.join(custom.position_columns(spec))}, drawn over each other"
        )
    return note


def _arm_styles(frame: pd.DataFrame, spec: ChartSpec, mode: Mode) -> tuple[ArmStyle, ...]:
    """Return the arms' styles from other pages, if all colours are names of arms in the warehouse; otherwise none."""
    if spec.colour != _ARM:
        return ()
    names = dict.fromkeys(frame[_ARM])
    drafting = published_data.drafting()
    return arm_styles(names, None, mode, drafting) if names.keys() <= drafting.keys() else ()


def title_of(sql: str, view_id: str) -> str:
    """Return the query's saved name, its title if it is an example, its leading comment, or its id. The name belongs to
    the SQL, whichever chart was saved with it.
    """
    views = saved_views.named_views(published_data.engine(), state.PAGE)
    named = [view.name for view in views if view.view_id == view_id] or [
        view.name for view in views if (query := state.saved(view.view_id)) is not None and query.sql == sql
    ]
    if named := named or [title for title, example in EXAMPLES.items() if example.sql == sql]:
        return named[0]
    first = sql.strip().partition("\n")[0]
    comment = first.removeprefix(_COMMENT).strip()[:_MAX_TITLE_LETTERS] if first.startswith(_COMMENT) else ""
    return comment[:1].upper() + comment[1:] if comment else f"Query {view_id}"
