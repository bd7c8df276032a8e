"""Figures made once: building a chart takes tens of milliseconds that every visitor would wait for again.

A figure that is kept keeps its specifications too (`webapp.charts.specs`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps

import streamlit as st

from webapp import data
from webapp.charts.figures import Figure
from webapp.charts.theme import Mode

Draw = Callable[[Mapping[str, Sequence[str]], Mode], list[Figure]]
_MOST_KEPT = 128


def kept(draw: Draw) -> Draw:
    """The same figures for the same parameters and publication. `draw` may ask for nothing else that changes."""

    @st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
    def drawn(
        publication: data.Publication, asked: tuple[tuple[str, tuple[str, ...]], ...], mode: Mode
    ) -> list[Figure]:
        del publication
        return draw(dict(asked), mode)

    @wraps(draw)
    def keeping(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
        asked = tuple((name, tuple(values)) for name, values in sorted(parameters.items()))
        return list(drawn(data.publication(), asked, mode))

    return keeping
