"""Cards: a figure with a label above it and a sentence below it, several in a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from webapp.shared.text import literal

#: A longer value is words rather than a figure and is set smaller.
_FIGURE_LETTERS = 12


@dataclass(frozen=True)
class Card:
    """A figure, and the sentence under it."""

    label: str
    value: str
    detail: str


def show_cards(cards: Sequence[Card]) -> None:
    """A row of cards of one height: a label, a figure, and a sentence that says what it means."""
    with st.grid(len(cards), gap="small", min_column_width=190):
        for card in cards:
            with st.container(border=True, height="stretch", gap="xxsmall"):
                st.caption(card.label)
                if len(card.value) <= _FIGURE_LETTERS:
                    st.header(literal(card.value), anchor=False)
                else:
                    st.markdown(f"**{literal(card.value)}**")
                st.caption(literal(card.detail))
