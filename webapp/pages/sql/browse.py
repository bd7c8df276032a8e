"""Any table of the warehouse without writing SQL: its rows, how often each value occurs, and a click that filters.

All of it is in the link: the table, the columns whose values are counted, and the values that rows must have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st

from webapp.pages.sql import data, state
from webapp.pages.sql.state import Query
from webapp.shared.errors import callback
from webapp.shared.tables import Column, columns, show_table
from webapp.shared.text import count, literal
from webapp.shared.url_params import View

#: Parameters of the link: a table, columns, and column=value of what is chosen.
TABLE, COUNTED, CHOSEN = "table", "counted", "is"
_MOST_VALUES, _MOST_ROWS = 12, 1_000
_NULL = "(null)"
_FACETS = "browse-facets"
_RUN = Column("run_id", link_text=r"run=([^&]*)")


def table() -> str | None:
    """Return the table that the link names; None if it names none, or an unknown one, which is reported."""
    named = st.query_params.get(TABLE)
    if named is None or named in {name for name, _, _ in data.tables()}:
        return named
    st.warning(f"This link names the table {literal(named)}, which does not exist.", icon=":material/link_off:")
    return None


@callback
def begin(name: str) -> None:
    """Show a table. A callback."""
    _forget()
    st.query_params[TABLE] = name


def show(name: str) -> None:
    described = next(found for known, _, found in data.tables() if known == name)
    names = [column for column, _, _ in described]
    chosen = _chosen(names)
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader(f"Table {literal(name)}", anchor=False, width="content")
        with st.container(horizontal=True, width="content", gap="small"):
            sql = f'SELECT * FROM "{name}"{_where(chosen)} LIMIT {_MOST_ROWS}'  # noqa: S608 - quoted
            st.button("Edit as SQL", icon=":material/edit:", on_click=_edit, args=(sql,))
            st.button("Close", icon=":material/close:", on_click=callback(_forget))
    lost = dict.fromkeys(each for each in st.query_params.get_all(CHOSEN) if each.partition("=")[0] not in names)
    if lost:
        named = literal(", ".join(lost))
        st.warning(f"This link filters by a column that does not exist: {named}.", icon=":material/link_off:")
    _show_facets(name, names, chosen)
    answer = data.answer(sql)
    more = f"; the first {_MOST_ROWS:,}" if len(answer.frame) == _MOST_ROWS else ""
    st.caption(f"{count(len(answer.frame), 'row')}{more}")
    view = View(state.PAGE, {TABLE: (name,), COUNTED: _facets(names), CHOSEN: st.query_params.get_all(CHOSEN)})
    show_table(answer.frame, run_links(answer.frame), f"Rows of {name}", view, "browse")


def run_links(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the configuration of a table in which a run's id, beside its job's, leads to its page."""
    return columns(pinned="", run_id=_RUN) if {"run_id", "job_id"} <= set(frame.columns) else {}


def _show_facets(name: str, names: Sequence[str], chosen: dict[str, str]) -> None:
    st.session_state[_FACETS] = list(_facets(names))
    st.multiselect("Count the values of", names, key=_FACETS, placeholder="Choose columns", on_change=_count)
    for column in _facets(names):
        others = {key: value for key, value in chosen.items() if key != column}
        _show_facet(name, column, others, chosen.get(column))


def _show_facet(name: str, column: str, others: dict[str, str], chosen: str | None) -> None:
    """Draw the most frequent values of a column among the rows that the other choices leave, to be clicked."""
    sql = (
        f"SELECT coalesce({_quoted(column)}::VARCHAR, '{_NULL}') AS value, count(*) AS rows "  # noqa: S608 - quoted
        f'FROM "{name}"{_where(others)} '
        f"GROUP BY ALL ORDER BY rows DESC, value LIMIT {_MOST_VALUES}"
    )
    counted = {row["value"]: row["rows"] for row in data.answer(sql).frame.to_dict("records")}
    values = list(counted) if chosen is None or chosen in counted else [chosen, *counted]
    key = f"browse-{name}-{column}"
    st.session_state[key] = chosen

    def with_count(value: str) -> str:
        return f"{literal(value)} ({counted.get(value, 0):,})"

    st.pills(column, values, key=key, format_func=with_count, on_change=_choose, args=(column, key))


@callback
def _count() -> None:
    _set(COUNTED, st.session_state[_FACETS])


@callback
def _choose(column: str, key: str) -> None:
    kept = [each for each in st.query_params.get_all(CHOSEN) if each.partition("=")[0] != column]
    value = st.session_state[key]
    _set(CHOSEN, kept if value is None else [*kept, f"{column}={value}"])


def _set(parameter: str, values: Sequence[str]) -> None:
    if st.query_params.get_all(parameter) == list(values):
        return
    if values:
        st.query_params[parameter] = list(values)
    else:
        st.query_params.pop(parameter, None)


def _chosen(names: Sequence[str]) -> dict[str, str]:
    pairs = (each.partition("=") for each in st.query_params.get_all(CHOSEN))
    return {column: value for column, _, value in pairs if column in names}


def _facets(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(column for column in st.query_params.get_all(COUNTED) if column in names)


def _where(chosen: dict[str, str]) -> str:
    conditions = [
        f"{_quoted(column)} IS NULL" if value == _NULL else f"{_quoted(column)}::VARCHAR = {_text(value)}"
        for column, value in chosen.items()
    ]
    return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


@callback
def _edit(sql: str) -> None:
    _forget()
    state.show(Query(sql))


def _forget() -> None:
    for parameter in (TABLE, COUNTED, CHOSEN):
        st.query_params.pop(parameter, None)
