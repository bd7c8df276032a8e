"""The visitor's tokens for programs: created, listed with their last use, and ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import streamlit as st

from access import tokens
from access.tokens import Token
from access.web import visitor
from access.web.gate import gate
from lab.errors import UserError
from lab.roles import Change, Role
from webapp.pages.account import changes
from webapp.shared import published_data
from webapp.shared.text import count, literal, moment

_DAYS = (7, 30, 90, 365)
_MOST_SHOWN = 100


def show() -> None:
    actor = visitor.actor()
    changes.show_outcome()
    _show_new()
    everybodys = (
        visitor.allowed(Change.TOKENS, None) and gate().has_users and st.toggle("Everybody's", key="all-tokens")
    )
    listed = tokens.all_tokens(published_data.engine(), None if everybodys else actor.name)
    now = datetime.now(UTC)
    working = [token for token in listed if token.revoked_at is None and token.ends_at > now]
    for token in working[:_MOST_SHOWN]:
        _show(token, with_owner=everybodys)
    if not working:
        st.caption("No token is active.")
    if len(working) > _MOST_SHOWN:
        st.caption(f"The newest {_MOST_SHOWN} of {count(len(working), 'token')} that are active.")


def _show_new() -> None:
    scopes = [role.value for role in Role if role.rank <= visitor.actor().role.rank]
    with st.form("account-token", border=True):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            label = st.text_input("What it is for", max_chars=tokens.MOST_LABEL, placeholder="My notebook")
            scope = st.selectbox("What it may do at most", scopes, help="Role of the token")
            days = st.selectbox("It works for", _DAYS, 1, format_func=lambda day: count(day, "day"))
            is_sent = st.form_submit_button("Make a token", type="primary", icon=":material/key:")
        st.caption("Programs send it as `Authorization: Bearer ...`, and act in your name.")
    if is_sent:
        actor, lasts = visitor.actor(), timedelta(days=days)
        try:
            engine = published_data.engine()
            made, secret = tokens.add_token(engine, actor.name, label, Role(scope), lasts=lasts, actor=actor)
        except UserError as error:
            changes.refuse(error)
        else:
            until = moment(made.ends_at)
            changes.note(f"Copy the token now: it is not shown again. It works until {until}.", secret)
        st.rerun()


def _show(token: Token, *, with_owner: bool) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        with st.container(gap=None, width="stretch"):
            st.markdown(f"**{literal(token.label)}**")
            used = "not used yet" if token.last_used_at is None else f"last used {moment(token.last_used_at)}"
            owner = f"{literal(token.name)} · " if with_owner else ""
            st.caption(
                f"{owner}{token.token_id} · as a {token.role.value} · works until {moment(token.ends_at)} · {used}"
            )
        changes.button("End it", ":material/key_off:", f"end-token-{token.token_id}", lambda: _end(token))


def _end(token: Token) -> str:
    tokens.revoke(published_data.engine(), token.token_id, actor=visitor.actor())
    return f"The token “{token.label}” no longer works."
