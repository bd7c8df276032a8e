"""Tabs of which only the open one is made; the link says which that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from webapp.shared import url_widgets
from webapp.shared.link import bound
from webapp.shared.url_params import Param


def show(param: Param, parts: Mapping[str, Callable[[], None]]) -> None:
    """`parts`: what shows each tab, by its name. The first is open where neither the link nor the reader chose one."""
    url_widgets.note_missing(param, list(parts))
    tabs = st.tabs(list(parts), **bound(param.key))
    url_widgets.say_missing(param)
    for tab, show_part in zip(tabs, parts.values(), strict=True):
        if tab.open:
            with tab:
                show_part()
