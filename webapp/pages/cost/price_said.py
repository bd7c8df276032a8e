"""What was last done with the price book, said with a way to undo it."""

from __future__ import annotations

from typing import TypedDict

import streamlit as st

from lab.cost import Price
from lab.errors import UserError
from webapp.pages.cost import data
from webapp.shared.text import literal

_SAID = "price-said"


class Said(TypedDict):
    """What was done last, and the entry by which it is undone: withdrawn if it was added, added if withdrawn."""

    sentence: str
    undo_withdraw: int | None
    undo_add: Price | None


def tell(sentence: str, *, undo_withdraw: int | None = None, undo_add: Price | None = None) -> None:
    """To be shown from now on."""
    st.session_state[_SAID] = Said(sentence=sentence, undo_withdraw=undo_withdraw, undo_add=undo_add)


def show() -> None:
    said: Said | None = st.session_state.get(_SAID)
    if said is None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":green[:material/check_circle:] {literal(said['sentence'])}", width="content")
        if said["undo_withdraw"] is not None or said["undo_add"] is not None:
            st.button("Undo", icon=":material/undo:", on_click=_undo, args=(said,), key="price-undo")


def _undo(said: Said) -> None:
    """An entry that was added is withdrawn; one that was withdrawn is added again, under a new number."""
    try:
        if said["undo_withdraw"] is not None:
            data.withdraw(said["undo_withdraw"])
            sentence = f"Entry {said['undo_withdraw']} counts no longer."
        elif said["undo_add"] is not None:
            again, _ = data.add(said["undo_add"])
            sentence = f"It counts again, as entry {again}."
        else:
            return
    except UserError as error:
        sentence = str(error)
    tell(sentence)
