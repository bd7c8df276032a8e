"""SQL: the reader's own query on the warehouse, its answer as a table and as a chart, and a link to both."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, urlencode, urljoin

import pandas as pd
import streamlit as st
from pandas.api.types import is_float_dtype

from access.web import visitor
from lab.errors import QueryError, UserError
from lab.metrics.number_format import number
from lab.roles import Change
from warehouse.app_db import saved_views
from warehouse.sandbox.measuring import measured_now
from warehouse.sandbox.runner import parameters_of
from webapp.charts import custom
from webapp.charts.custom import ChartSpec
from webapp.pages.sql import assistant, browse, data, figures, state
from webapp.pages.sql.data import Answer
from webapp.pages.sql.state import EXAMPLES, PAGE, TEXT, Query
from webapp.shared import dialogs, published_data
from webapp.shared.errors import callback, show_user_errors
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import show_rows, show_table
from webapp.shared.text import count, literal
from webapp.shared.url_params import QUERY, View

_EXAMPLE, _NAMED, _NAME = "sql-example", "sql-named", "sql-name"
_LINE_HEIGHT, _MIN_LINES, _MAX_LINES = 22, 7, 22
_HISTORY_LETTERS = 90
_STOPPED = "sql-stopped"
_NONE = "none"


def show_page() -> None:
    st.html(Path(__file__).parents[2] / "static" / "sql.css")
    st.title("SQL", anchor=False)
    with show_user_errors():
        begin()
        editor, schema = st.columns([2.6, 1], gap="medium")
        with editor:
            if (table := browse.table()) is not None:
                browse.show(table)
            else:
                show_editor()
                show_answer()
        with schema:
            show_schema()


def begin() -> None:
    """Load the link's query; end the page if there is no warehouse yet."""
    if published_data.publication() is None:
        st.info(
            "There is no warehouse yet. `drafthouse up` creates it, and the first study fills it.",
            icon=":material/database_off:",
        )
        st.stop()
    if missing := state.load():
        st.warning(
            f"This link names the query {literal(missing)}, which does not exist.",
            icon=":material/link_off:",
        )


def show_editor() -> None:
    _show_choices()
    lines = st.session_state[TEXT].count("\n") + 2
    st.text_area(
        "SQL",
        key=TEXT,
        height=_LINE_HEIGHT * min(_MAX_LINES, max(_MIN_LINES, lines)),
        on_change=callback(state.update_link),
        label_visibility="collapsed",
    )
    assistant.show()
    _show_parameters()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Run", type="primary", icon=":material/play_arrow:", on_click=callback(state.update_link))
        _show_naming()
        _show_history()
        st.caption(
            "Ctrl+Enter runs the query. Queries are read-only and have a time limit. The URL links to this query."
        )


def _show_parameters() -> None:
    """Draw a field for each `$name` of the query."""
    names = parameters_of(st.session_state[TEXT])
    if not names:
        return
    with st.grid(4, gap="small", min_column_width=150):
        for name in names:
            st.text_input(f"${name}", key=state.parameter_key(name), on_change=callback(state.update_link))


def _show_choices() -> None:
    """Draw the examples and the saved queries."""
    examples, named = st.columns(2)
    with examples:
        st.selectbox(
            "Examples", list(EXAMPLES), index=None, key=_EXAMPLE, on_change=_take_example, placeholder="Choose one"
        )
    with named:
        saved = saved_views.named_views(published_data.engine(), PAGE)
        st.selectbox(
            "Saved queries",
            [view.name for view in saved],
            index=None,
            key=_NAMED,
            on_change=_take_named,
            placeholder="Choose one" if saved else "None yet: save the query below under a name",
        )


@callback
def _take_example() -> None:
    if (chosen := EXAMPLES.get(st.session_state[_EXAMPLE])) is not None:
        state.show(chosen)
        st.session_state[_NAMED] = None


@callback
def _take_named() -> None:
    view_ids = {view.name: view.view_id for view in saved_views.named_views(published_data.engine(), PAGE)}
    view_id = view_ids.get(st.session_state[_NAMED])
    if view_id is not None and (query := state.saved(view_id)) is not None:
        state.show(query)
        st.session_state[_EXAMPLE] = None


def _show_naming() -> None:
    with st.popover("Save", icon=":material/bookmark_add:"):
        st.text_input("Name", key=_NAME, max_chars=saved_views.MAX_NAME_LENGTH, placeholder="Speed-up by hour")
        st.button("Save under this name", on_click=_save)
    if chosen := st.session_state.get(_NAMED):
        _show_address(chosen)
    if chosen and _may_rename(chosen):
        st.button("Delete the saved name", icon=":material/bookmark_remove:", on_click=_forget, args=(chosen,))


def _show_address(name: str) -> None:
    """Show where programs get the answer of a saved query."""
    given = state.current().given
    query = f"?{urlencode(given)}" if given else ""
    with st.popover("JSON", icon=":material/data_object:"):
        st.caption("The newest answer for programs, with a token; `format=csv` or `parquet` for other forms.")
        address = urljoin(st.context.url or "", f"api/v1/queries/{quote(name, safe='')}{query}")
        st.code(address, language=None, wrap_lines=True)


def _may_rename(name: str) -> bool:
    owners = {view.name: view.owner for view in saved_views.named_views(published_data.engine(), PAGE)}
    return visitor.allowed(Change.NAMED_VIEW, owners.get(name))


def _show_history() -> None:
    """Draw the earlier queries of this browser session; a click restores one."""
    earlier = [query for query in state.history() if query.sql != st.session_state[TEXT]]
    with st.popover("History", icon=":material/history:", disabled=not earlier):
        for number, query in enumerate(earlier):
            words = " ".join(query.sql.split())
            shown = words if len(words) <= _HISTORY_LETTERS else f"{words[:_HISTORY_LETTERS]} ..."
            label, key = literal(shown), f"sql-history-{number}"
            st.button(label, key=key, help=_code(query.sql), on_click=callback(state.show), args=(query,))


def _code(sql: str) -> str:
    """Return Markdown that shows the SQL as it is: a link may bring any, so the fence is longer than any in it."""
    fence = "`" * (1 + max(2, *map(len, re.findall("`+", f"` {sql}"))))
    return f"{fence}sql\n{sql}\n{fence}"


@callback
def _save() -> None:
    name, view_id = st.session_state[_NAME].strip(), state.save(state.current())
    saved_views.name_view(published_data.engine(), PAGE, name, view_id, actor=visitor.actor())
    st.toast(f"Saved as {literal(name)}", icon=":material/bookmark_added:")
    st.session_state[_NAMED] = st.session_state[_NAME].strip()
    st.session_state[_NAME] = ""


@callback
def _forget(name: str) -> None:
    saved_views.remove_name(published_data.engine(), PAGE, name, actor=visitor.actor())
    st.session_state[_NAMED] = None


_AUDIT = "Only administrators may read the table `audit`."


@st.fragment
def show_schema() -> None:
    """Draw every table next to the editor; its columns are drawn when it is opened."""
    st.markdown("**Tables**")
    with show_user_errors(), st.container(height=640, border=False, gap="xsmall"):
        if visitor.allowed_any(Change.AUDIT):
            st.caption("`audit`: who changed what and when; for administrators only")
        for name, comment, columns in data.tables():
            label = f"`{name}` :gray[{count(len(columns), 'column')}]"
            table = st.expander(label, key=f"sql-table-{name}", on_change="rerun")
            if not table.open:
                continue
            with table:
                st.caption(literal(comment))
                icon = ":material/table_view:"
                st.button("Browse its rows", icon=icon, key=f"sql-browse-{name}", on_click=browse.begin, args=(name,))
                st.markdown(
                    "\n".join(f"- `{column}` :gray[{kind}]  \n  {literal(text)}" for column, kind, text in columns)
                )


def show_answer() -> None:
    """Show the answer, or DuckDB's error message."""
    query = state.current()
    if not query.sql.strip():
        st.caption("Write a SELECT statement above, or choose an example.")
        return
    if empty := [name for name, value in query.given if not value]:
        st.info(f"Give a value for {literal(', '.join(f'${name}' for name in empty))} above.", icon=":material/edit:")
        return
    state.remember(query)
    if st.session_state.pop(_STOPPED, None) == query.sql:
        st.info("The query was stopped. Run starts it again.", icon=":material/stop_circle:")
        return
    stop = st.empty()
    with stop.container(horizontal=True, vertical_alignment="center"):
        st.button("Stop", icon=":material/stop:", key="sql-stop", on_click=_stop, args=(query.sql,))
        if why := measured_now(published_data.settings()):
            st.caption(
                f":material/hourglass_top: {literal(why[:1].upper() + why[1:])}: the answer may take until then."
            )
    try:
        if (rows := data.audit_answer(query.sql, visitor.actor())) is not None:
            st.caption("The audit table is shown to administrators only, and its answers cannot be pinned.")
            show_rows(rows, {}, "Rows of the audit table")
            return
        answer = data.answer(query.sql, query.given)
    except QueryError as error:
        is_audit = "audit" in query.sql.casefold() and not visitor.allowed_any(Change.AUDIT)
        what, _, where = str(error).partition("\n\nLINE ")
        st.error(_AUDIT if is_audit else literal(what), icon=":material/error:")
        if where and not is_audit:  # the caret below the word that is wrong
            st.code(f"LINE {where}", language=None)
        return
    finally:
        stop.empty()
    if query.chart is not None and not set(query.chart.columns) <= set(answer.drawable):
        state.set_chart(None)  # the chart of an earlier query
        query = state.current()
    _show_size(answer)
    try:
        view_id = state.save(query)
    except UserError as error:
        st.info(f"This answer cannot be pinned or linked to: {literal(error)}.", icon=":material/link_off:")
        view_id = ""
    table, chart = st.tabs(["Table", "Chart"], default="Chart" if query.chart else "Table")
    with table:
        _show_table(answer.frame, query, view_id)
    with chart:
        _show_chart(answer, query, view_id)


def _stop(sql: str) -> None:
    """Remember the stopped query. The click itself has ended the query by restarting the page's script."""
    st.session_state[_STOPPED] = sql


def _show_table(frame: pd.DataFrame, query: Query, view_id: str) -> None:
    """Show the answer as a table. `view_id` is empty for a query that is not saved."""
    title, view = figures.title_of(query.sql, view_id), _view(view_id)
    show_table(frame, browse.run_links(frame), title, view, "answer")
    dialogs.show_pin_button(title, view, figures.TABLE, "Pin the table")


def _view(view_id: str) -> View:
    """Return the link of a saved query; a query that is not saved has neither link nor pin."""
    return View(state.PAGE, {QUERY: (view_id,)}) if view_id else View("")


def _show_size(answer: Answer) -> None:
    rows = count(len(answer.frame), "row")
    rounded = "; rounded here, exact in the downloads" if any(map(is_float_dtype, answer.frame.dtypes)) else ""
    if answer.left_out:
        st.info(f"{answer.left_out.capitalize()}.", icon=":material/content_cut:")
    st.caption(f"{rows}, {count(len(answer.frame.columns), 'column')}, {number(answer.duration_s, 2)} s{rounded}")


def _show_chart(answer: Answer, query: Query, view_id: str) -> None:
    columns = answer.drawable
    if answer.chart is None:
        st.caption("A chart needs at least one row, and two columns of plain values.")
        return
    initial = query.chart or answer.chart
    chosen = _choose(columns, initial)
    mode, title = colour_mode(), figures.title_of(query.sql, view_id)  # the id in the link, not the chart's own
    if view_id and chosen != query.chart:
        view_id = state.save(Query(query.sql, chosen, query.given))
    figure = figures.cached_chart(query, chosen, title, mode)
    show_figures([figure], mode, _view(view_id))
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


if __name__ == "__main__":
    show_page()
