"""A link within the app is followed to the view that it names, also where its page showed another view before.

A page that is opened without one is as it was left: Streamlit keeps for a session what its reader chose there.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from webapp.server.first_paint import PAGE

#: Key in the session's state: by page, the parameters that were chosen by there so far.
_HAD = "link-had"


def bound(key: str) -> dict[str, Any]:
    """Of a widget whose value the URL carries: it belongs to the view of the page that is shown."""
    st.session_state.setdefault(_HAD, {}).setdefault(st.session_state.get(PAGE), set()).add(key)
    return {"key": key, "bind": "query-params"}


def missing_key(key: str) -> str:
    """In the session's state: what was asked for in vain for this parameter."""
    return f"missing-{key}"


def follow(page: str) -> None:
    """On a page that was just opened: a link tells all of its view, so what was chosen there before counts no longer.

    On its way back a browser passes through URLs of a page with another one's parameters: these are no links. Between
    pages that have a parameter in common Streamlit tells of no link: what was chosen for the rest stays.
    """
    had: dict[str, set[str]] = st.session_state.get(_HAD, {})
    here, asked = had.get(page, set()), set(st.query_params) & set().union(*had.values())
    if asked and (not here or asked & here):
        for key in here | asked:
            st.session_state.pop(key, None)
            st.session_state.pop(missing_key(key), None)
