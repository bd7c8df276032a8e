"""A page that was just opened shows its first figure before the rest of it is sent.

A browser that gets all at once lays out all of it, and makes every chart ready, before the first one is seen.
"""

from __future__ import annotations

import streamlit as st

from webapp.server.script_lock import PAGES

#: What a browser takes for a figure: with the app open, and while it still loads what draws.
_DRAWING_S, _LOADING_S = 0.15, 0.5
#: Key in the session's state: the page that was drawn last.
PAGE = "first-sight-page"
_LINGER = "first-sight-linger"


def begin(page: str) -> bool:
    """At the beginning of each run. Whether another page was shown before, or none."""
    shown = st.session_state.get(PAGE)
    if shown == page:
        return False
    st.session_state[PAGE] = page
    st.session_state[_LINGER] = _LOADING_S if shown is None else _DRAWING_S
    return True


def let_draw() -> None:
    """Behind a figure: wait if it is the first one of a page that was just opened, and nobody else waits for theirs."""
    if longest_s := st.session_state.pop(_LINGER, None):
        PAGES.linger(longest_s)
