"""Predicted against measured values of runs: on the diagonal both are equal."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from webapp.charts.axes import PANEL_HEIGHT
from webapp.charts.marks import colour, shape, tips
from webapp.charts.theme import INKS, ArmStyle, Mode

#: Room beside the outermost points, as a share of the axis.
_ROOM = 0.08


def panel(frame: pd.DataFrame, about: str, styles: Sequence[ArmStyle], mode: Mode) -> alt.LayerChart:
    """`frame` has arm, workload, pattern, concurrency, predicted, measured, run_id; `about`: what is predicted."""
    ink, ends = INKS[mode], _ends(frame)
    scale, axis = alt.Scale(domain=list(ends), nice=False, zero=False), alt.Axis(tickCount=5)
    diagonal = alt.Chart(pd.DataFrame({"x": list(ends), "y": list(ends)})).mark_line(
        color=ink.baseline, strokeWidth=1.5, strokeDash=[5, 3]
    )
    marks = alt.Chart(frame).mark_point(filled=True, size=75, opacity=0.85)
    points = marks.encode(
        x=alt.X("predicted:Q", title=f"{about}, predicted", scale=scale, axis=axis),
        y=alt.Y("measured:Q", title=f"{about}, measured", scale=scale, axis=axis),
        color=colour(styles),
        shape=shape(styles),
        tooltip=tips(
            *("arm", "workload", "pattern", ("concurrency:Q", "Concurrency")),
            *((f"{name}:Q", f"{about}, {name}", ".2f") for name in ("predicted", "measured")),
            ("run_id:N", "Run"),
        ),
    )
    words = alt.Chart(pd.DataFrame({"x": [ends[1]], "y": [ends[1]]})).mark_text(
        text="as predicted", align="right", dx=-36, dy=4, fontSize=11, fontStyle="italic", color=ink.muted
    )
    x, y = alt.X("x:Q"), alt.Y("y:Q")
    return alt.LayerChart(layer=[diagonal.encode(x=x, y=y), words.encode(x=x, y=y), points], height=PANEL_HEIGHT + 40)


def _ends(frame: pd.DataFrame) -> tuple[float, float]:
    """Return the range of both axes. It includes 1: neither slower nor faster, or one token per round."""
    values = pd.concat([frame["predicted"], frame["measured"], pd.Series([1.0])])
    low, high = float(values.min()), float(values.max())
    room = _ROOM * max(high - low, 0.1)
    return low - room, high + room
