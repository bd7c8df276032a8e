"""Figures made once: building a chart takes tens of milliseconds that every visitor would wait for again.

A figure that is kept keeps its specifications too (`webapp.charts.vega_spec`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TypeVar

import streamlit as st

from webapp.charts.theme import Mode
from webapp.shared import published_data

T = TypeVar("T")
Draw = Callable[[Mapping[str, Sequence[str]], Mode], T]
_MOST_KEPT = 128


def kept(draw: Draw[T]) -> Draw[T]:
    """What is drawn for the same parameters and publication, shared by all visitors: nobody may change it.

    `draw` may ask for nothing else that changes.
    """

    @st.cache_resource(show_spinner=False, max_entries=_MOST_KEPT)
    def drawn(publication: published_data.Publication, asked: tuple[tuple[str, tuple[str, ...]], ...], mode: Mode) -> T:
        del publication
        return draw(dict(asked), mode)

    @wraps(draw)
    def keeping(parameters: Mapping[str, Sequence[str]], mode: Mode) -> T:
        asked = tuple((name, tuple(values)) for name, values in sorted(parameters.items()))
        return drawn(published_data.publication(), asked, mode)

    return keeping
