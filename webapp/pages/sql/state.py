"""The state of the SQL page: a query and the chart of its answer, saved under the id that its link carries."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import streamlit as st

from warehouse.app_db import saved_views
from webapp.charts.custom import ChartSpec
from webapp.pages.sql.examples import EXAMPLES
from webapp.shared import published_data
from webapp.shared.url_params import QUERY

PAGE = "sql"
TEXT = "sql-text"
_CHART, _VIEW_ID = "sql-chart", "sql-view-id"


@dataclass(frozen=True)
class Query:
    sql: str
    chart: ChartSpec | None = None


def load() -> str | None:
    """Fill the editor from the link, as it was left, or with the first example.

    Returns the link's id if nothing is saved under it.
    """
    requested, shown = st.query_params.get(QUERY), st.session_state.get(_VIEW_ID)
    if requested is None and shown is not None:  # back from another page, which cleared the URL
        requested = st.query_params[QUERY] = shown
    if TEXT in st.session_state and requested == shown:
        return None
    query = None if requested is None else saved(requested)
    if query is not None:
        _fill(query)
        st.session_state[_VIEW_ID] = requested
    elif TEXT not in st.session_state:
        _fill(Query(EXAMPLES[0].sql, EXAMPLES[0].chart))
    return requested if query is None else None


def current() -> Query:
    return Query(st.session_state[TEXT], st.session_state[_CHART])


def save(query: Query) -> str:
    """Save the query; the same query always gets the same id."""
    chart = None if query.chart is None else asdict(query.chart)
    return saved_views.save(published_data.engine(), PAGE, {"sql": query.sql, "drawn": chart})


def saved(view_id: str) -> Query | None:
    """The query saved under this id, or None."""
    state = saved_views.load(published_data.engine(), PAGE, view_id)
    if state is None:
        return None
    return Query(state["sql"], None if state["drawn"] is None else ChartSpec(**state["drawn"]))


def update_link() -> None:
    """Save the current query and put its id into the URL."""
    st.session_state[_VIEW_ID] = st.query_params[QUERY] = save(current())


def show(query: Query) -> None:
    """Put the query into the editor and the URL."""
    _fill(query)
    update_link()


def show_saved(view_id: str) -> None:
    if (query := saved(view_id)) is not None:
        show(query)


def set_chart(chart: ChartSpec) -> None:
    st.session_state[_CHART] = chart
    update_link()


def _fill(query: Query) -> None:
    st.session_state[TEXT], st.session_state[_CHART] = query.sql, query.chart
