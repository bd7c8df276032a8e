"""Redraws the page's charts when its colours change between light and dark, by a script of our own.

Streamlit recolours all that is its own at once, but runs the page's script only at the next interaction.
"""

from __future__ import annotations

from pathlib import Path

from streamlit.runtime import exists

from webapp.charts.theme import Mode
from webapp.shared import own_scripts

_SCRIPT = Path(__file__).parent / "colour_watch.js"


def show(drawn: Mode) -> None:
    """Add the script, which reruns the page when its colours no longer match its charts."""
    if not exists():  # a test of the page's script alone
        return
    own_scripts.component(_SCRIPT)(key="colour-watch", data={"drawn": drawn}, height=1)
