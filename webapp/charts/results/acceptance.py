"""How often drafted tokens are accepted, by their position in the draft."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from webapp.charts.axes import PANEL_HEIGHT
from webapp.charts.theme import ArmStyle, colour_scale, shape_scale


def pooled(frame: pd.DataFrame) -> pd.DataFrame:
    """`queries.acceptance_per_position` over all loads, weighted by drafts: acceptance does not depend on the load."""
    weighted = frame.assign(accepted=frame["acceptance"] * frame["num_drafts"])
    sums = weighted.groupby(["arm", "category", "position"], sort=False, as_index=False)[
        ["accepted", "num_drafts"]
    ].sum()
    return sums.assign(acceptance=sums["accepted"] / sums["num_drafts"]).drop(columns="accepted")


def panel(frame: pd.DataFrame, styles: Sequence[ArmStyle], positions: int) -> alt.LayerChart:
    """One panel; `frame` has the pooled rows of one category, `positions` is the longest draft of the figure."""
    base = alt.Chart(frame).encode(
        x=alt.X(
            "position:O",
            title="Position in the draft",
            scale=alt.Scale(type="point", padding=0.35, domain=list(range(1, positions + 1))),
        ),
        y=alt.Y(
            "acceptance:Q",
            title="Drafts accepted up to this position (%)",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format=".0%", tickCount=5),
        ),
        color=alt.Color("arm:N", scale=colour_scale(styles), legend=None),
    )
    points = base.mark_point(filled=True, size=75, opacity=1).encode(
        shape=alt.Shape("arm:N", scale=shape_scale(styles), legend=None), tooltip=_tooltip()
    )
    lines = base.mark_line(strokeWidth=2)
    return alt.LayerChart(layer=[lines, points]).properties(height=PANEL_HEIGHT)


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("arm:N", title="Arm"),
        alt.Tooltip("category:N", title="Category"),
        alt.Tooltip("position:O", title="Position"),
        alt.Tooltip("acceptance:Q", title="Accepted up to here", format=".1%"),
        alt.Tooltip("num_drafts:Q", title="Drafts", format=",.0f"),
    ]
