"""Latencies of single requests, pooled over all runs of a group: distribution and percentiles."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lab.metrics.histogram import Counts, cumulative, quantile
from webapp.charts.axes import SHORT
from webapp.charts.explore.axes import dash_scale
from webapp.charts.explore.runs import Scene
from webapp.charts.theme import INKS, ArmStyle, colour_scale

PERCENTILES = (50, 90, 95, 99)
_STEPS = 240
#: How strong each band is, from p50 outwards.
_BANDS = (("p50", "p90", 0.34), ("p90", "p95", 0.2), ("p95", "p99", 0.11))


def counts_of(rows: pd.DataFrame) -> Counts:
    """Of `slices.pooled`: all its groups together."""
    added = rows.groupby("bucket")["count"].sum()
    return dict(zip(added.index.tolist(), added.tolist(), strict=True))


def shares(rows: pd.DataFrame, most: int = _STEPS) -> pd.DataFrame:
    """series, ms, share: at most `most` steps per series."""
    found = []
    for name, group in rows.groupby("series", sort=False):
        values, reached = cumulative(counts_of(group), most)
        found.append(pd.DataFrame({"series": name, "ms": values, "share": reached}))
    return pd.concat(found, ignore_index=True)


def percentiles(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """`by`, values (their number), p50, p90, p95, p99 in ms, always of the pooled values."""
    found = []
    for key, group in rows.groupby(by, sort=False):
        counts = counts_of(group)
        row = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        row |= {"values": sum(counts.values())} | {f"p{q}": quantile(counts, q / 100) for q in PERCENTILES}
        found.append(row)
    return pd.DataFrame(found)


def ecdf(drawn: pd.DataFrame, scene: Scene) -> alt.LayerChart:
    """`drawn` of `shares`; the x axis is logarithmic where no value is zero."""
    logarithmic = bool(len(drawn)) and float(drawn["ms"].min()) > 0
    scale = alt.Scale(type="log" if logarithmic else "linear", nice=False)
    if scene.x_domain is not None:
        scale.domain = list(scene.x_domain)
    base = alt.Chart(drawn).encode(
        x=alt.X(
            "ms:Q", title=scene.x.title, scale=scale, axis=alt.Axis(labelExpr=SHORT, labelOverlap=True, tickCount=8)
        ),
        y=alt.Y(
            "share:Q",
            title="Values up to this time (%)",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format=".0%", tickCount=5),
        ),
        color=alt.Color("series:N", scale=colour_scale(scene.styles), legend=None),
    )
    dash = alt.StrokeDash("series:N", scale=dash_scale(scene.styles), legend=None)
    lines = base.mark_line(strokeWidth=2, interpolate="step-after").encode(strokeDash=dash)
    near = base.mark_point(opacity=0, size=60).encode(
        tooltip=[
            alt.Tooltip("series:N", title="Series"),
            alt.Tooltip("ms:Q", title=scene.x.title, format=",.4~g"),
            alt.Tooltip("share:Q", title="Values up to this time", format=".1%"),
        ]
    )
    return alt.LayerChart(layer=[_rules(scene), lines, near]).properties(height=scene.height)


def _rules(scene: Scene) -> alt.Chart:
    """Where the median and p95 are read off."""
    rules: alt.Chart = alt.Chart(pd.DataFrame({"share": [0.5, 0.95]})).mark_rule(
        strokeDash=[3, 3], color=INKS[scene.mode].muted, opacity=0.6
    )
    return rules.encode(y="share:Q")


def bands(drawn: pd.DataFrame, style: ArmStyle, scene: Scene) -> alt.LayerChart:
    """`drawn` of `percentiles` of one series, with its place on the x axis in `x`."""
    base = alt.Chart(drawn).encode(x=_x(scene))
    scale = alt.Scale(nice=False) if scene.y_domain is None else alt.Scale(domain=list(scene.y_domain), nice=False)
    alone = len(drawn) == 1
    layers = []
    for low, high, opacity in reversed(_BANDS):
        mark = (
            base.mark_rule(strokeWidth=26, opacity=opacity, color=style.colour)
            if alone
            else base.mark_area(opacity=opacity, color=style.colour)
        )
        layers.append(mark.encode(y=alt.Y(f"{low}:Q", title=scene.y.title, scale=scale), y2=f"{high}:Q"))
    line = base.mark_line(strokeWidth=2, color=style.colour).encode(y=alt.Y("p50:Q", scale=scale))
    dots = base.mark_point(filled=True, size=60, opacity=1, color=style.colour, shape=style.shape)
    return alt.LayerChart(layer=[*layers, line, dots.encode(y="p50:Q", tooltip=_tooltip(scene))]).properties(
        height=scene.height
    )


def _x(scene: Scene) -> alt.X:
    long = max((len(value) for value in scene.order), default=0) > 7
    axis = alt.Axis(labelAngle=-30 if long else 0, labelLimit=180, labelOverlap="greedy")
    scale = alt.Scale(type="point", padding=0.35)
    return alt.X("x:O", sort=list(scene.order), title=scene.x.title, scale=scale, axis=axis)


def _tooltip(scene: Scene) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("series:N", title="Series"),
        alt.Tooltip("x:N", title=scene.x.title),
        *(alt.Tooltip(f"p{q}:Q", title=f"p{q}, ms", format=",.4~g") for q in PERCENTILES),
        alt.Tooltip("values:Q", title="Values", format=","),
    ]
