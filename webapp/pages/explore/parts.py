"""What figures of the Explore page have in common: rows parted into panels, and what is said of the rest. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from webapp.charts.explore.axes import Axis, natural
from webapp.charts.explore.runs import MOST_MARKS
from webapp.charts.panels import Figure
from webapp.pages.explore.selection import Asked

MOST_PANELS, MOST_SERIES = 12, 24
HEIGHT, PANEL_HEIGHT = 400, 280
#: Properties in which the runs of one mean may differ without being told apart.
_TOLD = ("dataset", "category", "load", "k", "draft_model", "arm", "engine", "hardware", "target")


@dataclass(frozen=True, eq=False)
class Shown:
    """What a view shows: a figure, None where nothing can be drawn; every run of the slice; what must be said of it.

    `groups` has the figure's own rows where these are groups of requests rather than runs.
    """

    figure: Figure | None
    runs: pd.DataFrame
    groups: pd.DataFrame | None
    said: tuple[str, ...]


def parts(rows: pd.DataFrame, facet: Axis | None) -> Iterator[tuple[str, pd.DataFrame]]:
    """A title, empty where there is a single panel, and the rows of each."""
    values = [] if facet is None else sorted(rows[facet.column].unique(), key=natural)
    if facet is None or len(values) == 1:
        yield "", rows
        return
    for value in values:
        yield _title(facet, value), rows[rows[facet.column] == value]


def _title(facet: Axis, value: str) -> str:
    """A number, or nothing, says what it is of."""
    return value if natural(value)[0] == 1 and facet.column != "day" else f"{facet.label}: {value}"


def height(rows: pd.DataFrame, facet: Axis | None) -> int:
    return HEIGHT if facet is None or len(rows[facet.column].unique()) == 1 else PANEL_HEIGHT


def cut(rows: pd.DataFrame, view: Asked) -> tuple[pd.DataFrame, list[str]]:
    """No more panels, colours and marks than can be read and drawn; what is left out is said."""
    said = []
    for axis, most, noun in ((view.facet, MOST_PANELS, "panels"), (view.colour, MOST_SERIES, "colours")):
        if axis is None:
            continue
        sizes = rows[axis.column].value_counts()
        if len(sizes) > most:
            said.append(f"Drawn are the {most} {noun} with most to draw, of {len(sizes)}.")
            rows = rows[rows[axis.column].isin(sizes.index[:most])]
    if view.mark in ("Scatter", "Pareto") and len(rows) > MOST_MARKS:
        said.append(f"Drawn are the newest {MOST_MARKS:,} of {len(rows):,} runs.")
        rows = rows.tail(MOST_MARKS)
    return rows, said


def mixed(rows: pd.DataFrame, view: Asked) -> list[str]:
    """What a mean mixes that the chart does not tell apart."""
    facet = [] if view.facet is None else [view.facet.column]
    by, held = ["x", "series", *facet], {view.x.column, view.colour.column, *facet}
    places = len(rows[by].drop_duplicates())
    several = [
        name.replace("_", " ")
        for name in _TOLD
        if name not in held and len(rows[[*by, name]].drop_duplicates()) > places
    ]
    if not several:
        return []
    return [f"Some means are over runs that differ in {_listed(several)}: part them by panels, colour or a filter."]


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def within(label: str) -> str:
    """A label inside a sentence."""
    return label if label[1:2].isupper() else label[0].lower() + label[1:]
