"""Buttons that change something, and the sentence about the outcome, which the next run of the page shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from lab.errors import UserError
from webapp.shared.errors import callback
from webapp.shared.text import literal


@dataclass(frozen=True)
class _Outcome:
    """The outcome of a change. `secret` is shown once, to be copied."""

    sentence: str
    is_refusal: bool = False
    secret: str = ""


def button(label: str, icon: str, key: str, part: str, change: Callable[[], str]) -> None:
    """Draw a button. `change` returns the sentence to show in this part of the page."""
    st.button(label, icon=f":material/{icon}:", key=key, on_click=_make, args=(part, change))


@callback
def _make(part: str, change: Callable[[], str]) -> None:
    try:
        note(part, change())
    except UserError as error:
        st.session_state[_key(part)] = _Outcome(str(error), is_refusal=True)


def note(part: str, sentence: str, secret: str = "") -> None:
    st.session_state[_key(part)] = _Outcome(sentence, secret=secret)


def refuse(part: str, error: UserError) -> None:
    st.session_state[_key(part)] = _Outcome(str(error), is_refusal=True)


def show_outcome(part: str) -> None:
    """Show the outcome once: the next click removes it."""
    outcome: _Outcome | None = st.session_state.pop(_key(part), None)
    if outcome is None:
        return
    if outcome.is_refusal:
        st.warning(literal(outcome.sentence[:1].upper() + outcome.sentence[1:]), icon=":material/info:")
        return
    st.success(literal(outcome.sentence), icon=":material/check:")
    if outcome.secret:
        st.code(outcome.secret, language=None, wrap_lines=True)


def _key(part: str) -> str:
    return f"account-{part}-outcome"
