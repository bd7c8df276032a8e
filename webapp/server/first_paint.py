"""Lets the browser draw the first figure of a page that was just opened before the rest of the page is sent.

The work-around `first_paint`: a browser that gets all at once lays out the whole page and prepares every chart before
the first one is seen. Its gain was not recorded when it came in; `make bench` measures the time from page to chart.
"""

from __future__ import annotations

import streamlit as st

from webapp.server import workarounds
from webapp.server.script_lock import PAGES

#: What a browser takes for a figure: with the app open, and while it still loads what draws.
_DRAWING_S, _LOADING_S = 0.15, 0.5
#: Key in the session's state: the page that was drawn last.
PAGE = "first-paint-page"
_PAUSE = "first-paint-pause"


def begin(page: str) -> bool:
    """At the beginning of each run. Returns whether another page was shown before, or none."""
    shown = st.session_state.get(PAGE)
    if shown == page:
        return False
    st.session_state[PAGE] = page
    st.session_state[_PAUSE] = _LOADING_S if shown is None else _DRAWING_S
    return True


def pause_after_figure() -> None:
    """Pause after the first figure of a page that was just opened, as long as no other visitor's script waits."""
    longest_s = st.session_state.pop(_PAUSE, None)
    if longest_s and workarounds.FIRST_PAINT in workarounds.enabled():
        PAGES.yield_for(longest_s)
