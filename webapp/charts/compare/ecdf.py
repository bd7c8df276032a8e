"""The empirical distribution of a latency: the share of requests answered within a time, a curve per arm."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from webapp.charts.axes import PANEL_HEIGHT, SHORT
from webapp.charts.theme import INKS, ArmStyle, Mode, colour_scale, shape_scale

#: The axis is logarithmic if the slowest request takes this many times as long as the fastest.
_WIDE = 20.0


def panel(frame: pd.DataFrame, title: str, styles: Sequence[ArmStyle], mode: Mode) -> alt.LayerChart:
    """`frame` has one latency's rows of `pages.compare.tables.ecdf`; `title` is what it is called, without its unit."""
    base = alt.Chart(frame).encode(
        x=alt.X("value_ms:Q", title=f"{title} (ms)", scale=_scale(frame["value_ms"]), axis=alt.Axis(labelExpr=SHORT)),
        y=alt.Y(
            "share:Q",
            title="Requests within this time (%)",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format=".0%", tickCount=5),
        ),
        color=alt.Color("arm:N", scale=colour_scale(styles), legend=None),
        tooltip=[
            alt.Tooltip("arm:N", title="Arm"),
            alt.Tooltip("value_ms:Q", title=f"{title} (ms)", format=",.4~g"),
            alt.Tooltip("share:Q", title="Requests within", format=".1%"),
        ],
    )
    medians = frame[frame["share"] >= 0.5].groupby("arm", sort=False).head(1)
    halves = alt.Chart(pd.DataFrame({"half": [0.5]})).mark_rule(color=INKS[mode].baseline, strokeDash=[4, 3])
    marks = base.properties(data=medians).mark_point(filled=True, size=75, opacity=1)
    shape = alt.Shape("arm:N", scale=shape_scale(styles), legend=None)
    return alt.LayerChart(
        layer=[
            halves.encode(y=alt.Y("half:Q")),
            base.mark_line(strokeWidth=2, interpolate="step-after"),
            marks.encode(shape=shape),
        ]
    ).properties(height=PANEL_HEIGHT)


def _scale(values: pd.Series) -> alt.Scale:
    least, most = float(values.min()), float(values.max())
    if least > 0 and most > _WIDE * least:
        return alt.Scale(type="log", domain=[least, most], nice=False)
    return alt.Scale(zero=False, nice=True)
