"""A link within the app is followed to the view that it names, also where its page showed another view before.

A page that is opened without one is as it was left: Streamlit keeps for a session what its reader chose there.
"""

from __future__ import annotations

import streamlit as st

from webapp import params

#: Key in the session's state: by page, the parameters that its URL has had so far.
_HAD = "link-had"


def follow(page: str) -> None:
    """On a page that was just opened: a link tells all of its view, so what was chosen there before counts no longer.

    On its way back a browser passes through URLs of a page with another one's parameters: these are no links.
    """
    before, asked = _had(page), _in_url()
    if asked and (not before or asked & before):
        for key in before | asked:
            st.session_state.pop(key, None)
            st.session_state.pop(params.missing_key(key), None)


def note(page: str) -> None:
    """At the end of each run of a page: what its URL tells now."""
    st.session_state.setdefault(_HAD, {})[page] = _had(page) | _in_url()


def _had(page: str) -> set[str]:
    found: set[str] = st.session_state.get(_HAD, {}).get(page, set())
    return found


def _in_url() -> set[str]:
    return set(st.query_params) & params.KEYS
