"""Acceptance by position in the draft, also given the positions before, and estimates for fewer drafted tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from webapp.charts.axes import PANEL_HEIGHT
from webapp.charts.theme import INKS, ArmStyle, Mode, colour_scale, shape_scale

#: Of a figure beside its mark: its share of the panel's height.
_LINE_HEIGHT = 0.075
_SHARES = {
    "acceptance": "Rounds accepted up to this position (%)",
    "conditional": "Accepted, given all before were (%)",
}


def shares(frame: pd.DataFrame, column: str, styles: Sequence[ArmStyle]) -> alt.LayerChart:
    """`frame` of `pages.compare.tables.positions`; `column` is `acceptance` or `conditional`."""
    base = _base(frame[frame[column].notna()], styles, "Position in the draft").encode(
        y=alt.Y(
            f"{column}:Q",
            title=_SHARES[column],
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format=".0%", tickCount=5),
        )
    )
    points = base.mark_point(filled=True, size=75, opacity=1).encode(shape=_shape(styles), tooltip=_TOOLTIP)
    return alt.LayerChart(layer=[base.mark_line(strokeWidth=2), points]).properties(height=PANEL_HEIGHT)


def lengths(frame: pd.DataFrame, styles: Sequence[ArmStyle], mode: Mode) -> alt.LayerChart:
    """Tokens per round by number of drafted tokens: full marks are measured, hollow ones estimated."""
    base = _base(frame, styles, "Drafted tokens (k)").encode(
        y=alt.Y("length:Q", title="Tokens per round", scale=alt.Scale(zero=False, nice=True, domainMin=1))
    )
    layers: list[Any] = [base.mark_line(strokeWidth=1.5, strokeDash=[4, 3])]
    for estimated in (True, False):
        rows = base.transform_filter(alt.datum.is_estimate == estimated)
        fill = INKS[mode].ground if estimated else alt.Undefined
        marks = rows.mark_point(filled=not estimated, size=75, strokeWidth=2, opacity=1, fill=fill)
        layers.append(marks.encode(shape=_shape(styles), tooltip=_TOOLTIP))
    words = _base(labelled(frame), styles, "Drafted tokens (k)").mark_text(dx=8, align="left", fontSize=11)
    layers.append(words.encode(y="label:Q", text=alt.Text("length:Q", format=".2f")))
    return alt.LayerChart(layer=layers).properties(height=PANEL_HEIGHT)


def labelled(frame: pd.DataFrame) -> pd.DataFrame:
    """The measured rows, with the place of each one's figure in `label`: none within a line's height of another."""
    measured = frame[~frame["is_estimate"]].sort_values("length")
    apart = _LINE_HEIGHT * (float(frame["length"].max()) - 1)
    last: dict[int, float] = {}  # by position, the place of the figure below
    labels = []
    for position, length in zip(measured["position"], measured["length"], strict=True):
        last[position] = max(length, last.get(position, 0.0) + apart)
        labels.append(last[position])
    return measured.assign(label=labels)


def _base(frame: pd.DataFrame, styles: Sequence[ArmStyle], title: str) -> alt.Chart:
    order = sorted(frame["position"].unique().tolist())
    scale = alt.Scale(type="point", padding=0.4, domain=order)
    return alt.Chart(frame).encode(
        x=alt.X("position:O", title=title, scale=scale),
        color=alt.Color("arm:N", scale=colour_scale(styles), legend=None),
    )


def _shape(styles: Sequence[ArmStyle]) -> alt.Shape:
    return alt.Shape("arm:N", scale=shape_scale(styles), legend=None)


_TOOLTIP = [
    alt.Tooltip("arm:N", title="Arm"),
    alt.Tooltip("position:O", title="Position, or drafted tokens"),
    alt.Tooltip("acceptance:Q", title="Accepted up to here", format=".1%"),
    alt.Tooltip("conditional:Q", title="Given all before", format=".1%"),
    alt.Tooltip("length:Q", title="Tokens per round with this k", format=".2f"),
    alt.Tooltip("is_estimate:N", title="Estimated"),
    alt.Tooltip("rounds:Q", title="Rounds measured", format=",.0f"),
]
