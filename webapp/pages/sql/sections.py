"""The SQL page's editor, examples, named queries and schema."""

from __future__ import annotations

import streamlit as st

from lab.errors import UserError
from warehouse.app_db import saved_views
from webapp.pages.sql import data as sql_data
from webapp.pages.sql import state
from webapp.pages.sql.examples import EXAMPLES
from webapp.pages.sql.state import PAGE, TEXT, Question
from webapp.shared import published_data
from webapp.shared.errors import show_user_errors
from webapp.shared.text import count, literal

_EXAMPLE, _NAMED, _NAME, _SAID = "sql-example", "sql-named", "sql-name", "sql-said"
_LINE_HEIGHT, _LEAST_LINES, _MOST_LINES = 22, 7, 22


def begin() -> None:
    """Take the question from the link; end the page where there is nothing to ask."""
    if published_data.publication() is None:
        st.info(
            "There is no warehouse yet: `drafthouse up` makes it, and the first study fills it.",
            icon=":material/database_off:",
        )
        st.stop()
    if missing := state.load():
        st.warning(
            f"This link asks for the query {literal(missing)}, which is not here (any more).",
            icon=":material/link_off:",
        )


def show_editor() -> None:
    _show_choices()
    lines = st.session_state[TEXT].count("\n") + 2
    st.text_area(
        "SQL",
        key=TEXT,
        height=_LINE_HEIGHT * min(_MOST_LINES, max(_LEAST_LINES, lines)),
        on_change=state.changed,
        label_visibility="collapsed",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button("Run", type="primary", icon=":material/play_arrow:", on_click=state.changed)
        _show_naming()
        st.caption("Ctrl+Enter runs it. It reads only, and is stopped when it takes too long. The URL is its link.")
    if said := st.session_state.pop(_SAID, None):
        st.warning(literal(said), icon=":material/info:")


def _show_choices() -> None:
    """Examples, and what somebody gave a name."""
    examples, named = st.columns(2)
    with examples:
        titles = [example.title for example in EXAMPLES]
        st.selectbox("Examples", titles, index=None, key=_EXAMPLE, on_change=_take_example, placeholder="Choose one")
    with named:
        found = saved_views.named_views(published_data.engine(), PAGE)
        st.selectbox(
            "Saved queries",
            [each.name for each in found],
            index=None,
            key=_NAMED,
            on_change=_take_named,
            placeholder="Choose one" if found else "None yet: save the query below under a name",
            disabled=not found,
        )


def _take_example() -> None:
    chosen = next((each for each in EXAMPLES if each.title == st.session_state[_EXAMPLE]), None)
    if chosen is not None:
        state.ask(Question(chosen.sql, chosen.drawn))
        st.session_state[_NAMED] = None


def _take_named() -> None:
    found = {each.name: each.view_id for each in saved_views.named_views(published_data.engine(), PAGE)}
    if (view_id := found.get(st.session_state[_NAMED])) is not None:
        state.recall(view_id)
        st.session_state[_EXAMPLE] = None


def _show_naming() -> None:
    with st.popover("Save", icon=":material/bookmark_add:"):
        st.text_input("Name", key=_NAME, max_chars=saved_views.MAX_NAME_LENGTH, placeholder="Speed-up by hour")
        st.button("Save under this name", on_click=_save)
    if chosen := st.session_state.get(_NAMED):
        st.button("Forget the name", icon=":material/bookmark_remove:", on_click=_forget, args=(chosen,))


def _save() -> None:
    try:
        saved_views.name_view(published_data.engine(), PAGE, st.session_state[_NAME].strip(), state.link())
    except UserError as error:
        st.session_state[_SAID] = str(error)
        return
    st.session_state[_NAMED] = st.session_state[_NAME].strip()
    st.session_state[_NAME] = ""


def _forget(name: str) -> None:
    saved_views.remove_name(published_data.engine(), PAGE, name)
    st.session_state[_NAMED] = None


@st.fragment
def show_schema() -> None:
    """Every table, with its columns once it is opened, to read beside the editor."""
    st.markdown("**Tables**")
    with show_user_errors(), st.container(height=640, border=False, gap="xsmall"):
        for name, comment, columns in sql_data.described():
            label = f"`{name}` :gray[{count(len(columns), 'column')}]"
            table = st.expander(label, key=f"sql-table-{name}", on_change="rerun")
            if not table.open:
                continue
            with table:
                st.caption(literal(comment))
                st.markdown(
                    "\n".join(f"- `{column}` :gray[{kind}]  \n  {literal(text)}" for column, kind, text in columns)
                )
