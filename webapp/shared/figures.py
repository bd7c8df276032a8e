"""Figures as the pages show them: title, legend, panels, and the menu of their files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from webapp.charts import vega_spec
from webapp.charts.explore.runs import CHOSEN
from webapp.charts.panels import Figure
from webapp.charts.theme import ArmStyle, Mode
from webapp.shared import downloads
from webapp.shared.text import literal
from webapp.shared.url_params import View

Choose = Callable[[str | None], None]
#: Panels in a row.
_MAX_COLUMNS = 3
#: Letters of an arm's name in a legend: a longer one may be wider than a phone.
_MOST_UNBROKEN = 32


def colour_mode() -> Mode:
    return "dark" if st.context.theme.type == "dark" else "light"


def show_figures(drawn: Sequence[Figure], mode: Mode, view: View, choose: Choose | None = None) -> None:
    """Show figures: those of a single panel side by side, others below each other.

    `view`: the link in their files. `choose`: called with the id of the run whose point is clicked.
    """
    if not drawn:
        return
    alone = all(len(figure.panels) == 1 for figure in drawn)
    columns, width = min(len(drawn), _MAX_COLUMNS), max(figure.least_width for figure in drawn)
    with st.grid(columns, min_column_width=width) if alone else st.container():
        for figure in drawn:
            _show(figure, mode, view, choose)


def _show(figure: Figure, mode: Mode, view: View, choose: Choose | None) -> None:
    """Show the panels side by side in one card with a legend, each as wide as possible."""
    with st.container(border=True, height="stretch", gap="xxsmall"):
        with st.container(horizontal=True, wrap=False, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown(f"**{literal(figure.title)}** :gray[({literal(figure.note)})]", width="stretch")
            downloads.show_figure_menu(figure, view, mode)
        show_panels(figure, mode, choose)


def show_panels(figure: Figure, mode: Mode, choose: Choose | None = None, *, key: str = "") -> None:
    """Show the legend, and the panels side by side. `key`: of this drawing, if the page has the figure twice.

    A figure with a width of its own, such as a heat map with numbers in it, scrolls sideways on a phone.
    """
    if figure.styles:
        st.markdown(legend(figure.styles))
    if figure.least_width == Figure.least_width:
        _show_grid(figure, mode, choose)
        return
    key = f"scrolling-{key or figure.key}"
    with st.container(key=key):
        st.html(f"<style>.st-key-{key} [data-testid=stVegaLiteChart] {{ min-width: {figure.least_width}px }}</style>")
        _show_grid(figure, mode, choose)


def _show_grid(figure: Figure, mode: Mode, choose: Choose | None) -> None:
    with st.grid(min(len(figure.panels), _MAX_COLUMNS), min_column_width=figure.least_width, gap="medium"):
        for number, ((title, _), spec) in enumerate(zip(figure.panels, vega_spec.of_panels(figure, mode), strict=True)):
            words = f"{figure.title}: {title}"
            if choose is None or not any(parameter["name"] == CHOSEN for parameter in spec.get("params", ())):
                st.vega_lite_chart(spec=spec, theme=None, alt=words)
            else:
                _show_choosable(spec, words, f"{figure.key}-{number}", choose)


def _show_choosable(spec: dict[str, Any], words: str, key: str, choose: Choose) -> None:
    """Call `choose` with the run of a clicked point, or with None after a click beside the points."""

    def chosen() -> None:
        points = st.session_state[key].selection.get(CHOSEN, [])
        choose(points[0].get("run_id") if points else None)

    st.vega_lite_chart(spec=spec, theme=None, alt=words, key=key, on_select=chosen, selection_mode=CHOSEN)


def legend(styles: Sequence[ArmStyle]) -> str:
    """Return the drawn arms with their colours and marks, as Markdown."""
    return " \u2002 ".join(
        f':color[{style.letter}]{{foreground="{style.colour}"}}\u00a0{literal(_unbroken(style.arm))}'
        + (f" :gray[{literal(style.note)}]" if style.note else "")
        for style in styles
    )


def _unbroken(name: str) -> str:
    """Return a short name so that no line ends within it."""
    return name.replace(" ", "\u00a0").replace("-", "\u2011") if len(name) <= _MOST_UNBROKEN else name
