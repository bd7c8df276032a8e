"""The colours and marks of series on the Explore page.

Runs measured here have full marks; imported and published ones have hollow marks and dashed lines of the same colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import altair as alt
import pandas as pd

from webapp.charts.explore.axes import Axis, natural
from webapp.charts.theme import ArmStyle, Mode, arm_styles

MEASURED = "measured"
#: Runs without speculation are grey where methods and draft models are told apart.
_WITHOUT = "none"
_ORIGINS = (MEASURED, "imported", "published")
_HOLLOW = {"circle": "○", "square": "□", "triangle-up": "△", "diamond": "◇", "triangle-down": "▽", "cross": "✛"}


@dataclass(frozen=True)
class Order:
    """The arms of the newest study in its own order; its baseline is grey on every page."""

    arms: tuple[str, ...] = ()
    baseline: str | None = None


def with_series(rows: pd.DataFrame, colour: Axis) -> pd.DataFrame:
    """Add `series`: the value of the colour's dimension, and its origin if it was not measured here."""
    value = rows[colour.column]
    if colour.column == "origin":
        return rows.assign(series=value)
    return rows.assign(series=value.where(rows["origin"] == MEASURED, value + " · " + rows["origin"]))


def styles(rows: pd.DataFrame, colour: Axis, order: Order, mode: Mode) -> tuple[ArmStyle, ...]:
    """The styles of the series in `rows`; arms in the order given, other values by number and alphabet."""
    first, baseline = (order.arms, order.baseline) if colour.column == "arm" else ((), _WITHOUT)
    names = rows[[colour.column, "origin", "series"]].drop_duplicates().set_index([colour.column, "origin"])["series"]
    values = list(dict.fromkeys([*first, *sorted(rows[colour.column].unique(), key=natural)]))
    return tuple(
        _of_origin(replace(style, arm=names[style.arm, origin]), origin)
        for style in arm_styles(values, baseline, mode)
        for origin in _ORIGINS
        if (style.arm, origin) in names.index
    )


def _of_origin(style: ArmStyle, origin: str) -> ArmStyle:
    return style if origin == MEASURED else replace(style, letter=_HOLLOW[style.shape], hollow=True)


def dash_scale(styles: Sequence[ArmStyle]) -> alt.Scale:
    dashes = [[5, 4] if style.hollow else [1, 0] for style in styles]
    return alt.Scale(domain=[style.arm for style in styles], range=dashes)
