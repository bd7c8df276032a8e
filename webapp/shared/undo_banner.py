"""The banner of the reader's last change on a page, with a button that undoes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from webapp.shared.errors import callback
from webapp.shared.text import literal


@dataclass(frozen=True)
class _LastChange:
    message: str
    icon: str
    undo: Callable[[], None] | None


def record(page: str, message: str, *, icon: str, undo: Callable[[], None] | None = None) -> None:
    """Show `message` on `page` from now on, replacing the previous one. `icon`: as in Streamlit."""
    st.session_state[_key(page)] = _LastChange(message, icon, undo)


def message(page: str) -> str | None:
    change: _LastChange | None = st.session_state.get(_key(page))
    return None if change is None else change.message


def clear(page: str) -> None:
    st.session_state.pop(_key(page), None)


def show(page: str) -> None:
    change: _LastChange | None = st.session_state.get(_key(page))
    if change is None:
        return
    with st.container(border=True, horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f"{change.icon} {literal(change.message)}", width="content")
        if change.undo is not None:
            key = f"{page}-undo"
            st.button("Undo", icon=":material/undo:", key=key, on_click=_undo, args=(page, change.undo))


@callback
def _undo(page: str, undo: Callable[[], None]) -> None:
    """Undo the change. `undo` may record a change of its own, which is shown next."""
    clear(page)
    undo()


def _key(page: str) -> str:
    return f"{page}-last-change"
