"""The users of this lab, for its administrators: added, given a role or a new link, and disabled."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from access import accounts
from access.accounts import User
from access.web import visitor
from access.web.gate import gate
from lab.errors import UserError
from lab.roles import Role
from webapp.pages.account import changes
from webapp.shared import published_data
from webapp.shared.errors import callback
from webapp.shared.tables import DAY, Column, columns, show_rows
from webapp.shared.text import literal

_CHOSEN, _ROLE = "account-user", "account-role"
#: Key in the session's state: how many were added, so that the form is empty for the next.
_ADDED = "account-users-added"
_COLUMNS = columns(
    pinned="name", name=Column("Name"), role=Column("Role"), state=Column("State"), added=Column("Added", DAY)
)


def show() -> None:
    changes.show_outcome()
    users = accounts.all_users(published_data.engine())
    _show_new()
    rows = [
        {"name": user.name, "role": user.role.value, "state": _state(user), "added": user.created_at} for user in users
    ]
    show_rows(pd.DataFrame(rows, columns=list(_COLUMNS)), _COLUMNS, "The users of this lab")
    if others := [user for user in users if user.name != visitor.actor().name]:
        _show_chosen(others)


def _has_links() -> bool:
    """Return whether users set a password with a link; otherwise they sign in at a provider."""
    return gate().settings.web_login == "accounts"


def _state(user: User) -> str:
    if user.disabled_at is not None:
        return "disabled"
    return "has no password yet" if _has_links() and not user.has_password else "may sign in"


def _show_new() -> None:
    with st.form("account-new-user", border=True), st.container(horizontal=True, vertical_alignment="bottom"):
        key = f"account-new-name-{st.session_state.get(_ADDED, 0)}"
        name = st.text_input("Name of a new user", placeholder="ada or ada@example.org", max_chars=100, key=key)
        role = st.selectbox("Role", [role.value for role in Role], key="account-new-role")
        is_sent = st.form_submit_button("Add the user", type="primary", icon=":material/person_add:")
    if is_sent:
        _add(name.strip(), Role(role))
        st.rerun()


def _add(name: str, role: Role) -> None:
    try:
        accounts.add_user(published_data.engine(), name, role, actor=visitor.actor())
        st.session_state[_ADDED] = st.session_state.get(_ADDED, 0) + 1
        st.session_state[_CHOSEN] = name
        if _has_links():
            _make_link(name)
        else:
            changes.note(f"{name} may sign in at the provider.")
    except UserError as error:
        changes.refuse(error)


def _make_link(name: str) -> None:
    secret = accounts.new_link(published_data.engine(), name, actor=visitor.actor())
    days = accounts.LINK_LASTS.days
    sentence = f"Send this link to {name}. It works once, for {days} days, and is not shown again."
    changes.note(sentence, f"{gate().settings.public_url}/login/link/{secret}")


def _show_chosen(users: list[User]) -> None:
    """Draw the changes to another user; administrators cannot change themselves, as they could not undo it."""
    by_name = {user.name: user for user in users}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = st.selectbox("User", list(by_name), key=_CHOSEN)
        user = by_name[name]
        names = [role.value for role in Role]
        role = st.selectbox("Their role", names, names.index(user.role.value), key=f"{_ROLE}-{name}-{user.role.value}")
        changes.button("Give the role", ":material/badge:", "account-give-role", lambda: _give_role(user, Role(role)))
        if _has_links():
            st.button(
                "New link", icon=":material/link:", key="account-new-link", on_click=callback(_make_link), args=(name,)
            )
        if user.disabled_at is None:
            changes.button("Disable", ":material/person_off:", "account-disable", lambda: _disable(user))
        else:
            changes.button("Enable", ":material/person:", "account-enable", lambda: _enable(user))
    st.caption(f"Disabling signs {literal(name)} out everywhere and suspends their tokens and shared links.")


def _give_role(user: User, role: Role) -> str:
    accounts.set_role(published_data.engine(), user.name, role, actor=visitor.actor())
    return f"{user.name} is {'an' if role is Role.ADMINISTRATOR else 'a'} {role.value} now."


def _disable(user: User) -> str:
    accounts.disable(published_data.engine(), user.name, actor=visitor.actor())
    return f"{user.name} is signed out and may not sign in."


def _enable(user: User) -> str:
    accounts.enable(published_data.engine(), user.name, actor=visitor.actor())
    return f"{user.name} may sign in again."
