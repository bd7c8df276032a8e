"""Redraws the page's charts when its colours change between light and dark, by a script of our own.

Streamlit recolours all that is its own at once, but runs the page's script only at the next interaction.
"""

from __future__ import annotations

from webapp.charts.theme import Mode
from webapp.shared import own_scripts


def show(drawn: Mode) -> None:
    """Add the script, which reruns the page when its colours no longer match its charts."""
    own_scripts.show(__file__, "colour-watch", data={"drawn": drawn})
