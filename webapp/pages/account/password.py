"""Changing the visitor's password, which takes the old one."""

from __future__ import annotations

import streamlit as st

from access import passwords, sessions
from access.web import visitor
from lab.errors import UserError
from webapp.shared import published_data
from webapp.shared.text import literal

_OLD, _NEW, _AGAIN = "account-old", "account-new", "account-again"


def show() -> None:
    with st.form("account-password", border=False, width=420):
        old = st.text_input("Your password", type="password", key=_OLD, autocomplete="current-password")
        new = st.text_input("The new one", type="password", key=_NEW, autocomplete="new-password")
        again = st.text_input("The new one again", type="password", key=_AGAIN, autocomplete="new-password")
        st.caption(
            f"At least {passwords.LEAST_LENGTH} characters. You will have to sign in again on all of your devices; "
            "tokens and shared links stay."
        )
        is_sent = st.form_submit_button("Change the password", type="primary")
    if is_sent:
        _change(old, new, again)


def _change(old: str, new: str, again: str) -> None:
    if new != again:
        st.warning("The two new passwords differ: type the same one twice.", icon=":material/info:")
        return
    try:
        address = st.context.ip_address or "unknown"
        sessions.change_password(published_data.engine(), visitor.actor().name, old, new, address)
    except UserError as error:
        st.warning(literal(str(error)[:1].upper() + str(error)[1:]), icon=":material/info:")
        return
    st.success("The password was changed. Load this page again to sign in with it.", icon=":material/check:")
