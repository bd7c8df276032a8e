"""Draws the page's charts anew when its colours change from light to dark or back, by a script of our own.

Streamlit recolours all that is its own at once, but runs the page's script only at the next interaction.
"""

from __future__ import annotations

from pathlib import Path

from streamlit.runtime import exists

from webapp.charts.theme import Mode
from webapp.shared import own_scripts

_SCRIPT = Path(__file__).parent / "colour_watch.js"


def show(drawn: Mode) -> None:
    """Begins a run of the page when its colours are no longer those that its charts are drawn in."""
    if not exists():  # a test of the page's script alone
        return
    own_scripts.component(_SCRIPT)(key="colour-watch", data={"drawn": drawn}, height=1)
