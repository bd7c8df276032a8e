"""The ratio to the baseline against concurrency with its 95 % intervals, and where it crosses 1×."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from webapp.charts.axes import PANEL_HEIGHT
from webapp.charts.results import speedup
from webapp.charts.theme import INKS, ArmStyle, Mode, colour_scale, shape_scale

#: An interval may reach so far (in log2) beyond all ratios before the axis ends.
_MOST_BEYOND = 0.8
_CONCURRENCY = "Concurrency (requests in flight)"
#: Points of one concurrency are set apart by this factor, so that their intervals can be told apart.
_APART = 1.035


@dataclass(frozen=True)
class Look:
    """What the panels of one figure share. `domain`: of the ratios; `loss_is_low`: below 1× is worse."""

    title: str
    domain: tuple[float, float]
    styles: tuple[ArmStyle, ...]
    mode: Mode
    loss_is_low: bool


def panel(gains: pd.DataFrame, crossings: pd.DataFrame, look: Look) -> alt.LayerChart:
    """One workload; `gains` and `crossings` as `pages.compare.tables` gives them, loads of several concurrencies."""
    rows = _apart(gains, look.styles)
    y = alt.Y(
        "ratio:Q",
        title=look.title,
        scale=alt.Scale(type="log", base=2, domain=list(look.domain), nice=False, clamp=True),
        axis=alt.Axis(
            values=speedup.ticks(look.domain), labelOverlap=False, labelExpr="format(datum.value, '~g') + '×'"
        ),
    )
    base = alt.Chart(rows).encode(x=_x(gains), color=_colour(look))
    layers: list[Any] = [*_ground(look), base.mark_line(strokeWidth=2).encode(y=y)]
    if rows["low"].notna().any():
        layers.append(base.mark_rule(strokeWidth=1.5, opacity=0.8).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")))
    layers.append(base.mark_point(filled=True, size=75, opacity=1).encode(y=y, shape=_shape(look), tooltip=_TOOLTIP))
    layers += _crossings(crossings, look)
    return alt.LayerChart(layer=layers).properties(height=PANEL_HEIGHT)


def domain(gains: pd.DataFrame) -> tuple[float, float]:
    """The y range: every ratio, and as much of the intervals as leaves the ratios readable."""
    low, high = gains["ratio"].min(), gains["ratio"].max()
    bounds = gains.assign(
        ratio_min=gains["low"].fillna(gains["ratio"]).clip(lower=low * 2**-_MOST_BEYOND),
        ratio_max=gains["high"].fillna(gains["ratio"]).clip(upper=high * 2**_MOST_BEYOND),
    )
    return speedup.domain(bounds)


def _apart(gains: pd.DataFrame, styles: tuple[ArmStyle, ...]) -> pd.DataFrame:
    place = {style.arm: number - (len(styles) - 1) / 2 for number, style in enumerate(styles)}
    return gains.assign(x=gains["concurrency"] * gains["arm"].map(place).map(lambda step: _APART**step))


def _x(gains: pd.DataFrame) -> alt.X:
    measured = sorted(gains["concurrency"].unique().tolist())
    scale = alt.Scale(type="log", base=2, domain=[measured[0] / 1.3, measured[-1] * 1.3], nice=False)
    axis = alt.Axis(values=measured, format="d", labelOverlap="greedy")
    return alt.X("x:Q", title=_CONCURRENCY, scale=scale, axis=axis)


def _colour(look: Look) -> alt.Color:
    return alt.Color("arm:N", scale=colour_scale(look.styles), legend=None)


def _shape(look: Look) -> alt.Shape:
    return alt.Shape("arm:N", scale=shape_scale(look.styles), legend=None)


def _ground(look: Look) -> list[alt.Chart]:
    """The losing side, and the rule at 1×."""
    ink = INKS[look.mode]
    losing = "low" if look.loss_is_low else "high"
    sides = alt.Chart(pd.DataFrame({"one": [1.0], "low": [look.domain[0]], "high": [look.domain[1]]}))
    return [
        sides.mark_rect(color=ink.loss, opacity=0.09).encode(y=alt.Y("one:Q"), y2=alt.Y2(f"{losing}:Q")),
        sides.mark_rule(color=ink.baseline, strokeWidth=1.5, strokeDash=[5, 3]).encode(y=alt.Y("one:Q")),
    ]


def _crossings(crossings: pd.DataFrame, look: Look) -> list[Any]:
    """On the rule at 1×: a hollow mark where an arm's line crosses it, and a bar over the crossing's interval."""
    found = crossings[crossings["concurrency"].notna()].assign(one=1.0)
    if found.empty:
        return []
    base = alt.Chart(found).encode(y=alt.Y("one:Q"), color=_colour(look))
    layers: list[Any] = []
    if (found["low"].notna() & found["high"].notna()).any():
        layers.append(base.mark_rule(strokeWidth=6, opacity=0.35).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")))
    marks = base.mark_point(filled=False, fill=INKS[look.mode].ground, size=70, strokeWidth=2, opacity=1)
    layers.append(marks.encode(x=alt.X("concurrency:Q"), shape=_shape(look), tooltip=_CROSSING))
    return layers


_TOOLTIP = [
    alt.Tooltip("arm:N", title="Arm"),
    alt.Tooltip("workload:N", title="Workload"),
    alt.Tooltip("pattern:N", title="Load"),
    alt.Tooltip("concurrency:Q", title=_CONCURRENCY),
    alt.Tooltip("ratio:Q", title="Ratio to the baseline (×)", format=".3f"),
    alt.Tooltip("low:Q", title="95 % from (×)", format=".3f"),
    alt.Tooltip("high:Q", title="95 % to (×)", format=".3f"),
    alt.Tooltip("verdict:N", title="Verdict"),
    alt.Tooltip("basis:N", title="Interval from"),
]
_CROSSING = [
    alt.Tooltip("arm:N", title="Arm"),
    alt.Tooltip("concurrency:Q", title="Crosses 1× at concurrency", format=".1f"),
    alt.Tooltip("low:Q", title="95 % from", format=".1f"),
    alt.Tooltip("high:Q", title="95 % to", format=".1f"),
]
