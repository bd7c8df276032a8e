"""Figures and cards as the pages show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import pandas as pd
import streamlit as st

from webapp import file_buttons
from webapp.about import View
from webapp.charts.explore_runs import CHOSEN
from webapp.charts.figures import Figure
from webapp.charts.theme import ArmStyle, Mode, themed
from webapp.headline import Card
from webapp.tables import with_run_links
from webapp.text import literal

Choose = Callable[[str | None], None]
#: More panels than this stand in several rows.
_MOST_COLUMNS = 3
#: A panel narrower than this (pixels) goes to the next row.
_LEAST_WIDTH = 380
#: A longer value is words rather than a figure and is set smaller.
_FIGURE_LETTERS = 12


def mode() -> Mode:
    return "dark" if st.context.theme.type == "dark" else "light"


def show_figures(drawn: Sequence[Figure], mode: Mode, view: View, choose: Choose | None = None) -> None:
    """Figures of one panel stand beside each other as far as the window is wide, others below each other.

    `view`: where their files say that they stand. `choose`: what hears of the run whose point is clicked.
    """
    alone = len(drawn) > 1 and all(len(figure.panels) == 1 for figure in drawn)
    with st.grid(_MOST_COLUMNS, min_column_width=_LEAST_WIDTH) if alone else st.container():
        for figure in drawn:
            _show(figure, mode, view, choose)


def _show(figure: Figure, mode: Mode, view: View, choose: Choose | None) -> None:
    """The panels side by side in a card of their own, one legend above, each as wide as it may be."""
    with st.container(border=True, height="stretch"):
        with st.container(horizontal=True, horizontal_alignment="distribute", gap="small"):
            st.markdown(f"**{literal(figure.title)}** :gray[({literal(figure.note)})]", width="content")
            file_buttons.show_figure_menu(figure, view, mode)
        if figure.styles:
            st.markdown(legend(figure.styles))
        with st.grid(min(len(figure.panels), _MOST_COLUMNS), min_column_width=_LEAST_WIDTH, gap="medium"):
            for place, (title, chart) in enumerate(figure.panels):
                told, words = themed(_titled(chart, title), mode), f"{figure.title}: {title}"
                if choose is None or not any(each.name == CHOSEN for each in _parameters(chart)):
                    st.altair_chart(told, theme=None, alt=words)
                else:
                    _show_choosable(told, words, f"{figure.key}-{place}", choose)


def _parameters(chart: Any) -> list[Any]:
    """What a chart declares to be chosen by, in its layers too."""
    parts = [chart, *getattr(chart, "layer", [])]
    return [each for part in parts if part.params is not alt.Undefined for each in part.params]


def _show_choosable(chart: Any, words: str, key: str, choose: Choose) -> None:
    """A click on a point names its run to `choose`, a click beside the points names none."""

    def chosen() -> None:
        points = st.session_state[key].selection.get(CHOSEN, [])
        choose(points[0].get("run_id") if points else None)

    st.altair_chart(chart, theme=None, alt=words, key=key, on_select=chosen, selection_mode=CHOSEN)


def _titled(chart: Any, title: str) -> Any:
    return chart.properties(title=title) if title else chart


def legend(styles: Sequence[ArmStyle]) -> str:
    """Only the arms that are drawn, with their colour and mark, as Markdown."""
    return " \u2002 ".join(
        f':color[{style.letter}]{{foreground="{style.colour}"}} {literal(style.arm)}' for style in styles
    )


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


def show_table(frame: pd.DataFrame, config: dict[str, Any], title: str, view: View, key: str) -> None:
    """A table with its files below it. Each run leads to its page where the view or the row knows the study."""
    shown = with_run_links(frame, *view.parameters.get("job", ()))
    st.dataframe(shown, hide_index=True, column_config=config, alt=title, placeholder="")
    file_buttons.show_table_buttons(frame, title, view, key)
