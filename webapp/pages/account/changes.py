"""Buttons that change something, and the sentence about the outcome, which the next run of the page shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from lab.errors import UserError
from webapp.shared.errors import callback
from webapp.shared.text import literal

_OUTCOME = "account-outcome"


@dataclass(frozen=True)
class _Outcome:
    """The outcome of a change. `secret` is shown once, to be copied."""

    sentence: str
    is_refusal: bool = False
    secret: str = ""


def button(label: str, icon: str, key: str, change: Callable[[], str]) -> None:
    """Draw a button. `change` returns the sentence to show in the open part of the page."""
    st.button(label, icon=icon, key=key, on_click=_make, args=(change,))


@callback
def _make(change: Callable[[], str]) -> None:
    try:
        note(change())
    except UserError as error:
        refuse(error)


def note(sentence: str, secret: str = "") -> None:
    st.session_state[_OUTCOME] = _Outcome(sentence, secret=secret)


def refuse(error: UserError) -> None:
    st.session_state[_OUTCOME] = _Outcome(str(error), is_refusal=True)


def show_outcome() -> None:
    """Show the outcome once: the next click removes it."""
    outcome: _Outcome | None = st.session_state.pop(_OUTCOME, None)
    if outcome is None:
        return
    if outcome.is_refusal:
        st.warning(literal(outcome.sentence[:1].upper() + outcome.sentence[1:]), icon=":material/info:")
        return
    st.success(literal(outcome.sentence), icon=":material/check:")
    if outcome.secret:
        st.code(outcome.secret, language=None, wrap_lines=True)
