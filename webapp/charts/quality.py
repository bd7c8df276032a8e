"""The chart of answer quality: the difference of arms' scores from the baseline's, with the margin."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from webapp.charts.marks import colour, shape, tips
from webapp.charts.theme import INKS, ArmStyle, Mode

#: The height of an arm's row and of the axis below, and the smallest difference that is drawn, in points.
_ROW_HEIGHT, _AXIS_HEIGHT, _LEAST_REACH = 60, 84, 8.0


def quality_panel(rows: pd.DataFrame, margin: float, styles: Sequence[ArmStyle], mode: Mode) -> alt.LayerChart:
    """Draw one workload: a row for each arm; `points`, `low`, `high` and `margin` are in percentage points."""
    reach = max(_LEAST_REACH, margin, *rows[["low", "high"]].abs().max()) * 1.05
    arms = [style.arm for style in styles if style.arm in set(rows["arm"])]
    y = alt.Y("arm:N", title=None, sort=arms, axis=alt.Axis(labelLimit=200))
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    x = alt.X(
        "points:Q", title="Score minus the baseline's (percentage points)", scale=scale, axis=alt.Axis(tickCount=8)
    )
    base = alt.Chart(rows).encode(y=y, color=colour(styles))
    lines = pd.DataFrame({"at": [0.0, -margin], "kind": ["equal", "margin"]})
    dash = alt.StrokeDash("kind:N", legend=None, scale=alt.Scale(domain=["equal", "margin"], range=[[1, 0], [4, 3]]))
    rules = alt.Chart(lines).mark_rule(color=INKS[mode].muted).encode(x=alt.X("at:Q", scale=scale), strokeDash=dash)
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q"))
    tooltip = tips(
        "arm",
        "workload",
        ("quality:N", "Answers are"),
        ("score:Q", "Score (%)", ".1f"),
        ("baseline_score:Q", "Baseline (%)", ".1f"),
        ("difference:N", "Difference (points) [95 %]"),
        "prompts",
    )
    points = base.mark_point(filled=True, size=85, opacity=1).encode(x=x, shape=shape(styles), tooltip=tooltip)
    words = base.mark_text(align="left", dx=8, dy=-15, fontSize=12).encode(x=x, text=alt.Text("quality:N"))
    figures = base.mark_text(align="left", dx=8, dy=16, fontSize=11).encode(x=x, text=alt.Text("difference:N"))
    return alt.LayerChart(layer=[rules, bars, points, words, figures], height=_AXIS_HEIGHT + _ROW_HEIGHT * len(arms))
