"""The picture of an answer: what the engine yields, or what tokens cost, against the speed that one user sees."""

from __future__ import annotations

import altair as alt
import pandas as pd

from webapp.charts.axes import PANEL_HEIGHT, SHORT
from webapp.charts.marks import colour, points, tips, with_written
from webapp.charts.theme import ArmStyle

#: Where an arm's loads are named beside its points: under a high load the arms' points nearly coincide.
_BESIDE = ((0, -11), (0, 12), (-12, 0), (12, 0))
#: The least width of an axis, as a share of its values: on a narrower one the ticks' labels would repeat each other.
_LEAST_SPREAD = 0.02


def panel(frame: pd.DataFrame, title: str, styles: tuple[ArmStyle, ...]) -> alt.LayerChart:
    """Draw one target's workload: a line per arm through its loads, each named by its concurrency.

    `frame`: arm, concurrency, user_tok_per_s, and value, of which `title` is the name with its unit.
    """
    places = {style.arm: _BESIDE[number % len(_BESIDE)] for number, style in enumerate(styles)}
    dx, dy = zip(*frame["arm"].map(places), strict=True)
    rows = frame.assign(load=frame["concurrency"].astype(str), dx=dx, dy=dy)
    base = with_written(alt.Chart(rows), "user_tok_per_s", "value").encode(
        x=alt.X(
            "user_tok_per_s:Q",
            title="Speed for one user (tok/s)",
            scale=_scale(rows["user_tok_per_s"]),
            axis=alt.Axis(labelExpr=SHORT, tickCount=6),
        ),
        y=alt.Y("value:Q", title=title, scale=_scale(rows["value"]), axis=alt.Axis(labelExpr=SHORT)),
        color=colour(styles),
    )
    tooltip = tips(
        *("arm", ("load:N", "Concurrency")),
        *(("user_tok_per_s_written:N", "Speed for one user, tok/s"), ("value_written:N", title)),
    )
    line = base.mark_line(strokeWidth=2).encode(order=alt.Order("concurrency:Q"))
    named = base.mark_text(dx=alt.ExprRef("datum.dx"), dy=alt.ExprRef("datum.dy"), fontSize=10)
    named = named.encode(text=alt.Text("load:N"))
    return alt.LayerChart(layer=[line, points(base, styles, tooltip=tooltip), named], height=PANEL_HEIGHT)


def _scale(values: pd.Series) -> alt.Scale:
    low, high = float(values.min()), float(values.max())
    lacking = _LEAST_SPREAD * high - (high - low)
    domain = [low - lacking / 2, high + lacking / 2] if lacking > 0 else alt.Undefined
    return alt.Scale(domain=domain, zero=False, padding=18)
