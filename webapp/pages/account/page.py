"""Account: the visitor's links, tokens and password, and for an administrator everybody's."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from access.web import visitor
from access.web.gate import gate
from lab.roles import Change, Role, sentence
from webapp.pages.account import links, password, tokens, users
from webapp.shared import url_params, url_widgets
from webapp.shared.dialogs import LINKS_TAB
from webapp.shared.errors import show_user_errors
from webapp.shared.text import literal


def show_page() -> None:
    st.title("Account")
    with show_user_errors():
        actor = visitor.actor()
        article = "an" if actor.role.value.startswith("a") else "a"
        st.caption(f"{literal(actor.name)}, {article} {actor.role.value} of this lab")
        url_widgets.show_tabs(url_params.ACCOUNT_TAB, _parts())
        with st.expander("What each role may do", icon=":material/badge:"):
            st.caption("Each role may also do what those above it may. Everybody who may sign in can read everything.")
            for role in Role:
                st.markdown(f"**{role.value}**: {literal(sentence(role))}")


def _parts() -> dict[str, Callable[[], None]]:
    """Return the tabs. Without users nobody can have a password or a token."""
    ours = gate()
    parts: dict[str, Callable[[], None]] = {LINKS_TAB: links.show}
    if ours.has_users:
        parts["Tokens"] = tokens.show
    if ours.settings.web_login == "accounts":
        parts["Password"] = password.show
    if ours.has_users and visitor.allowed_any(Change.USERS):
        parts["Users"] = users.show
    return parts


if __name__ == "__main__":
    show_page()
