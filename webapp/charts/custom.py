"""Charts of any table, built from the columns that a reader chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import altair as alt
import numpy as np
import pandas as pd
from pandas.api import types

from webapp.charts.theme import ArmStyle, colour_scale

Mark = Literal["line", "bar", "point", "area"]
MARKS: tuple[Mark, ...] = get_args(Mark)
#: A browser draws more marks than this only slowly.
MOST_ROWS = 10_000
_HEIGHT = 380
#: About as many fit side by side below the narrowest chart, a card of a dashboard.
_LETTERS_ON_A_LINE = 40
_LABEL_LIMIT_PX = 120
_LEGEND_COLUMNS = 3


@dataclass(frozen=True)
class ChartSpec:
    """The mark of a chart, and the columns it shows."""

    mark: Mark
    x: str
    y: str
    colour: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for column in (self.x, self.y, self.colour) if column is not None)


def chart(frame: pd.DataFrame, spec: ChartSpec, styles: Sequence[ArmStyle] = ()) -> alt.Chart:
    """Draw the first MOST_ROWS rows; the tooltip shows every column used. Raises KeyError for a missing column.

    `styles`: the styles of the arms that the colour stands for, so that they look as on other pages.
    """
    x, y, colour = spec.x, spec.y, spec.colour
    used = list(dict.fromkeys(spec.columns))
    # Column names may contain dots and brackets, which Vega-Lite would read as paths.
    rows = frame[used].head(MOST_ROWS).set_axis([f"c{place}" for place in range(len(used))], axis=1)
    field = {column: f"c{place}" for place, column in enumerate(used)}
    kinds = {column: _kind(frame[column]) for column in used}
    encoded = {
        "x": alt.X(f"{field[x]}:{kinds[x]}", title=x, sort=None, axis=_x_axis(frame[x], kinds[x])),
        "y": alt.Y(f"{field[y]}:{kinds[y]}", title=y, sort=None),
        "tooltip": [alt.Tooltip(f"{field[column]}:{kinds[column]}", title=column) for column in used],
    }
    if colour is not None:
        scale = colour_scale(styles) if styles else alt.Undefined
        legend = None if colour == x else alt.Legend(columns=_LEGEND_COLUMNS)  # the x axis names the same values
        encoded["color"] = alt.Color(f"{field[colour]}:{kinds[colour]}", title=colour, scale=scale, legend=legend)
    base = alt.Chart(rows, height=_HEIGHT)
    made: alt.Chart = {
        "line": base.mark_line(point=True),
        "bar": base.mark_bar(),
        "point": base.mark_point(filled=True, size=60),
        "area": base.mark_area(opacity=0.6),
    }[spec.mark].encode(**encoded)
    return made


def drawable(frame: pd.DataFrame) -> list[str]:
    """The columns with one plain value per row; lists and structs cannot be drawn on an axis."""
    return [str(name) for name in frame.columns if not frame[name].map(lambda value: isinstance(value, _NESTED)).any()]


_NESTED = (list, dict, tuple, np.ndarray)


def _x_axis(column: pd.Series, kind: str) -> alt.Axis:
    """Labels of many or long names are slanted, so that they do not cover each other."""
    if kind != "N":
        return alt.Axis()
    letters = sum(len(str(value)) for value in column.head(MOST_ROWS).unique())
    return alt.Axis(labelAngle=-40, labelLimit=_LABEL_LIMIT_PX) if letters > _LETTERS_ON_A_LINE else alt.Axis()


def _kind(column: pd.Series) -> str:
    if types.is_datetime64_any_dtype(column):
        return "T"
    return "Q" if types.is_numeric_dtype(column) and not types.is_bool_dtype(column) else "N"
