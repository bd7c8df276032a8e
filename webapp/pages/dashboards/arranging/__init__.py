"""Cards that are dragged to another position and pulled to another width, by a script of our own.

The buttons below each card do the same without a pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import streamlit as st

from webapp.shared import own_scripts

_KEY = "dashboards-arranging"


@dataclass(frozen=True)
class Arranged:
    """A change to a card: another width, or a new position before another card (None: at the end)."""

    pin_id: str
    before: str | None
    is_wide: bool | None


def show(titles: Mapping[str, str], arrange: Callable[[Arranged], None]) -> None:
    """Add the script; call it after the cards. `titles`: one per pin, in their order."""

    def on_change() -> None:
        arranged = st.session_state[_KEY].arranged
        before, is_wide = arranged.get("before"), arranged.get("isWide")
        if arranged["pin"] in titles and (before is None or before in titles):
            arrange(Arranged(arranged["pin"], before, is_wide))

    cards = [{"pin": pin_id, "title": title} for pin_id, title in titles.items()]
    own_scripts.show(__file__, _KEY, data={"cards": cards}, on_arranged_change=on_change)
