"""What the reader removed last on the pages of dashboards, and the way back."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
import streamlit as st

from warehouse.app_db import dashboards, pins
from webapp.shared import published_data
from webapp.shared.text import literal

_KEY = "dashboards-removed"
_BACK: dict[str, Callable[[sa.Engine, str], None]] = {
    "pin": pins.bring_back,
    "dashboard": dashboards.bring_back,
}


def remember(kind: str, what: str, title: str) -> None:
    """`kind`: pin or dashboard; `what`: its id."""
    st.session_state[_KEY] = (kind, what, title)


def show() -> None:
    if (removed := st.session_state.get(_KEY)) is None:
        return
    kind, what, title = removed
    with st.container(border=True, horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f":material/delete: The {kind} “{literal(title)}” was removed.", width="content")
        st.button("Undo", icon=":material/undo:", key="dashboards-undo", on_click=_bring_back, args=(kind, what))


def _bring_back(kind: str, what: str) -> None:
    _BACK[kind](published_data.engine(), what)
    st.session_state.pop(_KEY, None)
