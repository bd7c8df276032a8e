"""Cards: a value with a label above it and a sentence below it, several in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from webapp.shared.text import literal

#: A longer value is set in smaller type.
_MAX_LARGE_LETTERS = 12


@dataclass(frozen=True)
class Card:
    """A label, a value, and the sentence below it."""

    label: str
    value: str
    detail: str


def show_cards(cards: Sequence[Card]) -> None:
    """A row of cards of equal height."""
    with st.grid(len(cards), gap="small", min_column_width=190):
        for card in cards:
            with st.container(border=True, height="stretch", gap="xxsmall"):
                st.caption(card.label)
                if len(card.value) <= _MAX_LARGE_LETTERS:
                    st.header(literal(card.value), anchor=False)
                else:
                    st.subheader(literal(card.value), anchor=False)
                st.caption(literal(card.detail))
