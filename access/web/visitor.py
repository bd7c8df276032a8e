"""The visitor of a page: the actor of every change that the page makes."""

from __future__ import annotations

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from access.web.gate import gate
from access.web.page_sessions import PAGE_SESSIONS
from lab.errors import AccessError, UserError
from lab.roles import Actor, Change, may, may_any
from warehouse.app_db.engine import DATABASE_ERRORS


def actor() -> Actor:
    """Return the person whose browser shows the page. Raises AccessError if their session has ended meanwhile."""
    here = gate()
    cookie = None if here.is_open else st.context.cookies.get(here.cookie)
    found = here.actor_of(cookie)
    if found is None:
        raise AccessError("your session has ended: load this page again to sign in")
    return found


def claim_session() -> None:
    """Let nobody else resume this page's session, or upload into it. Raises AccessError as `actor` does."""
    name, context = actor().name, get_script_run_ctx(suppress_warning=True)
    if context is not None:
        PAGE_SESSIONS.claim(context.session_id, name)


def allowed(change: Change, owner: str | None) -> bool:
    """Return whether the page should offer this change to what `owner` owns. The change itself is checked again."""
    return may(actor(), change, owner)


def allowed_any(change: Change) -> bool:
    """Return whether the page should offer this change at all."""
    return may_any(actor(), change)


def name_for_queue() -> str:
    """Return the user name under which a script queues; empty if visitors are not distinguished."""
    here = gate()
    if not here.has_users:
        return ""
    try:
        found = here.actor_of(st.context.cookies.get(here.cookie))
    except (UserError, *DATABASE_ERRORS):  # the database cannot be reached: the page reports it
        return ""
    return "" if found is None else found.name


def has_signed_in() -> bool:
    """Return whether the visitor is a user of this lab, who can sign out."""
    return gate().has_users
