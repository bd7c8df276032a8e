"""The marks of the Explore page: runs as points, lines or bars, and latencies of single requests pooled by group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lab.comparison.spread import student
from lab.metrics.histogram import Counts, cumulative, quantile
from lab.metrics.number_format import bounds, is_too_wide, number
from webapp.charts.axes import SHORT, ratio_axis, share_axis
from webapp.charts.explore.axes import Axis, dash, natural
from webapp.charts.marks import (
    DODGE,
    colour,
    dodged,
    number_tooltip,
    reference,
    shape,
    tips,
    whiskers,
    with_written,
)
from webapp.charts.theme import INKS, ArmStyle, Mode, colour_scale, fill_scale

#: The parameter by which a point is chosen; it gives `run_id`.
CHOSEN = "run"
#: With more runs than MOST_POINTS, lines show only means and ranges; more than MOST_MARKS are slow to draw.
MOST_POINTS = 1_500
MOST_MARKS = 5_000
_ABOUT = ("arm", "dataset", "category", "load", "k", "engine", "hardware", "origin", "source")
_VERDICT = (("verdict:N", "Against the baseline"),)
_LONG_LABEL = 7
PERCENTILES = (50, 90, 95, 99)
_STEPS = 240
#: The most that whiskers may widen an axis, as a multiple of its height without them.
_MOST_ROOM = 3.0
#: How strong each band is, from p50 outwards.
_BANDS = (("p50", "p90", 0.34), ("p90", "p95", 0.2), ("p95", "p99", 0.11))


@dataclass(frozen=True)
class Scene:
    """Settings that the panels of a figure share: axes, colours, and the ranges of their numbers."""

    x: Axis
    y: Axis
    styles: tuple[ArmStyle, ...]
    mode: Mode
    height: int
    order: tuple[str, ...] = ()  # of an ordinal x
    x_domain: tuple[float, float] | None = None
    y_domain: tuple[float, float] | None = None
    band: tuple[float, float] | None = None  # what others found for y


def order_of(rows: pd.DataFrame, axis: Axis) -> tuple[str, ...]:
    return tuple(sorted(rows[axis.column].unique(), key=natural)) if axis.kind == "ordinal" else ()


def numbers(rows: pd.DataFrame, x: Axis, y: Axis) -> pd.DataFrame:
    """Adds `x` and `y` in the units of the axes; runs that lack one of them are left out."""
    scaled = rows.assign(x=_scaled(rows, x), y=_scaled(rows, y))
    return scaled[scaled["x"].notna() & scaled["y"].notna()]


def _scaled(rows: pd.DataFrame, axis: Axis) -> pd.Series:
    return rows[axis.column] * axis.factor if axis.kind == "number" else rows[axis.column]


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row per x and series: x, series, origin, y (mean), low, high, y_written (with both), runs, verdict.

    `low` and `high` are the mean's 95 % interval by Student's t, null for a single run. Where all runs are of one cell
    whose ratio is drawn, y is that ratio with the interval of its verdict. `verdict` is empty for several.
    """
    grouped = rows.groupby(["x", "series", "origin"], sort=False, as_index=False)
    table: pd.DataFrame = grouped.agg(y=("y", "mean"), spread=("y", "std"), runs=("y", "size"), **_of_cells(rows))
    half = student(np.maximum(table["runs"] - 1, 1), 0.95) * table.pop("spread") / np.sqrt(table["runs"])
    table = table.assign(low=table["y"] - half, high=table["y"] + half)
    if "cells" not in table:
        return _with_written_ends(table.assign(verdict=""), of_ratio=False)
    is_one = table.pop("cells") == 1
    table["verdict"] = table["verdict"].where(is_one, "")
    if "ratio" in table:
        is_one &= table["ratio"].notna()
        for shown, judged in (("y", "ratio"), ("low", "ratio_low"), ("high", "ratio_high")):
            table[shown] = table[shown].mask(is_one, table.pop(judged))
        return _with_written_ends(table, of_ratio=is_one)
    return _with_written_ends(table, of_ratio=False)


def _with_written_ends(table: pd.DataFrame, *, of_ratio: pd.Series | bool) -> pd.DataFrame:
    """Adds `y_written`, and leaves out the ends that are shown as unknown."""
    marked = table.assign(of_ratio=of_ratio)
    columns = [marked[name] for name in ("y", "low", "high", "of_ratio")]
    intervals = [(*ends, bool(ratio)) for *ends, ratio in zip(*columns, strict=True)]
    texts = [f"{number(y)} {bounds(y, low, high, of_ratio=ratio)}".rstrip() for y, low, high, ratio in intervals]
    is_wide = np.array([is_too_wide(y, low, high, of_ratio=ratio) for y, low, high, ratio in intervals], dtype=np.bool_)
    return table.assign(y_written=texts, **{end: table[end].mask(is_wide) for end in ("low", "high")})


def _of_cells(rows: pd.DataFrame) -> dict[str, Any]:
    """Aggregate the cells behind a mean: their number, and the verdict and ratio of the first."""
    if "cell" not in rows:
        return {}
    ratios = [name for name in ("ratio", "ratio_low", "ratio_high") if name in rows]
    return {"cells": ("cell", "nunique"), "verdict": ("verdict", "first")} | {name: (name, "first") for name in ratios}


def with_whiskers(
    shown: tuple[float, float], panels: Iterable[pd.DataFrame], *, from_zero: bool
) -> tuple[tuple[float, float], bool]:
    """Return the range `shown`, widened for the whiskers of these panels, and whether some still exceed it."""
    every = pd.concat([means(rows) for rows in panels])
    low, high = span([*shown, *every["low"].dropna(), *every["high"].dropna()], from_zero=from_zero)
    room = _MOST_ROOM * (shown[1] - shown[0])
    wider = (shown[0] if from_zero else max(low, shown[0] - room), min(high, shown[1] + room))
    return wider, high > wider[1] or (not from_zero and low < wider[0])


def line(rows: pd.DataFrame, scene: Scene) -> alt.LayerChart:
    """Draw lines. `rows`: of `numbers` with `series`. The series are side by side at each x."""
    of_runs = means(rows)
    if scene.y_domain is not None and _is_logarithmic(scene):
        of_runs = of_runs.assign(low=of_runs["low"].clip(lower=scene.y_domain[0]))
    base = alt.Chart(dodged(of_runs, "series", scene.styles)).encode(
        x=_x_of_runs(scene), color=colour(scene.styles, "series")
    )
    known = base.transform_filter("isValid(datum.low)")
    layers = [
        *_band(scene),
        base.mark_line(strokeWidth=2, xOffset=DODGE).encode(y=_y(scene), strokeDash=dash(scene.styles)),
        whiskers(known, opacity=0.6, clip=True, xOffset=DODGE),
    ]
    if len(rows) > MOST_POINTS:
        layers.append(_dots(base, scene).encode(y=_y(scene), tooltip=_mean_tooltip(scene)))
    else:
        layers.append(_points(dodged(rows, "series", scene.styles), scene))
    return alt.LayerChart(layer=layers, height=scene.height)


def bar(rows: pd.DataFrame, scene: Scene) -> alt.LayerChart:
    """Draw bars. `rows`: of `numbers` with `series`; the x axis is a dimension."""
    order = [style.arm for style in scene.styles]
    offset = alt.XOffset("series:N", sort=order)
    base = alt.Chart(means(rows)).encode(x=_x_of_runs(scene, banded=True), xOffset=offset)
    fill = alt.Fill("series:N", scale=fill_scale(scene.styles, scene.mode), legend=None)
    stroke = alt.Stroke("series:N", scale=colour_scale(scene.styles), legend=None)
    bars = base.mark_bar(cornerRadiusTopLeft=2, cornerRadiusTopRight=2, strokeWidth=1.5).encode(
        y=_y(scene), fill=fill, stroke=stroke, tooltip=_mean_tooltip(scene)
    )
    known = base.transform_filter("isValid(datum.low)")
    ranges = whiskers(known, color=INKS[scene.mode].text, clip=True)
    return alt.LayerChart(layer=[*_band(scene), bars, ranges], height=scene.height)


def scatter(rows: pd.DataFrame, scene: Scene) -> alt.LayerChart:
    """Draw points. `rows`: of `numbers` with `series`, at most MOST_MARKS of them."""
    return alt.LayerChart(layer=[*_band(scene), _points(rows, scene)], height=scene.height)


def _band(scene: Scene) -> list[alt.Chart]:
    """Draw the range of what others found, and the rule at 1, where ratios are drawn."""
    ink, layers = INKS[scene.mode], []
    if scene.band is not None:
        ends = alt.Chart(pd.DataFrame({"low": [scene.band[0]], "high": [scene.band[1]]}))
        layers.append(
            ends.mark_rect(color=ink.muted, opacity=0.16, clip=True).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q"))
        )
    if scene.y.unit == "×":
        layers.append(reference(alt.Chart(pd.DataFrame({"one": [1.0]})), scene.mode))
    return layers


def frontier(rows: pd.DataFrame, scene: Scene, *, higher: bool) -> alt.LayerChart:
    """Draw a Pareto frontier. `rows`: of `numbers` with `series` and `best`: whether no other run is better in both.

    `higher`: both numbers are better when they are higher, else when they are lower. The line has steps, as nothing was
    measured between two runs.
    """
    best = alt.Chart(rows.loc[rows["best"], ["x", "y"]].drop_duplicates())
    steps = best.mark_line(
        strokeWidth=1.5,
        color=INKS[scene.mode].muted,
        strokeDash=[3, 3],
        interpolate="step-before" if higher else "step-after",
    )
    drawn = steps.encode(x=_x_of_runs(scene), y=_y(scene), order=alt.Order("x:Q"))
    return alt.LayerChart(layer=[drawn, _points(rows, scene)], height=scene.height)


def _points(rows: pd.DataFrame, scene: Scene) -> alt.Chart:
    chosen = alt.selection_point(name=CHOSEN, fields=["run_id"], on="click", empty=True)
    wanted = ["x", "y", "series", "run_id", "repeat", *_ABOUT]
    about = [name for name in _ABOUT if name not in (scene.x.column, scene.y.column)]
    shown = rows[[*wanted, *(name for name in ("best", "verdict", "dodge_px") if name in rows)]]
    base = alt.Chart(_written(shown, scene)).encode(x=_x_of_runs(scene))
    dots = _dots(base, scene).encode(
        y=_y(scene),
        tooltip=tips(
            _tip(scene.x, "x"),
            _tip(scene.y, "y"),
            *(_VERDICT if "verdict" in shown else ()),
            *((f"{name}:N", "Draft tokens k" if name == "k" else name.capitalize()) for name in about),
        ),
        opacity=alt.OpacityValue(0.25, condition=[{"param": CHOSEN, "empty": True, "value": 1.0}]),
    )
    chart: alt.Chart = dots.add_params(chosen)
    return chart


def _dots(base: alt.Chart, scene: Scene) -> alt.Chart:
    chart: alt.Chart = base.mark_point(size=70, strokeWidth=1.6, cursor="pointer", xOffset=DODGE).encode(
        stroke=alt.Stroke("series:N", scale=colour_scale(scene.styles), legend=None),
        fill=alt.Fill("series:N", scale=fill_scale(scene.styles, scene.mode), legend=None),
        shape=shape(scene.styles, "series"),
    )
    return chart


def _x_of_runs(scene: Scene, *, banded: bool = False) -> alt.X:
    if scene.x.kind == "time":
        return alt.X("x:T", title=scene.x.title, scale=alt.Scale(type="utc"))
    if scene.x.kind == "number":
        return alt.X("x:Q", title=scene.x.title, scale=_scale(scene.x_domain))
    return _ordinal_x(scene, alt.Scale() if banded else alt.Scale(type="point", padding=0.35))


def _ordinal_x(scene: Scene, scale: alt.Scale) -> alt.X:
    long = max((len(value) for value in scene.order), default=0) > _LONG_LABEL
    axis = alt.Axis(labelAngle=-30 if long else 0, labelLimit=180, labelOverlap="greedy")
    return alt.X("x:O", sort=list(scene.order), title=scene.x.title, scale=scale, axis=axis)


def _y(scene: Scene) -> alt.Y:
    if scene.y.kind != "number":
        return alt.Y("y:O", title=scene.y.title)
    if scene.y_domain is not None and _is_logarithmic(scene):
        return ratio_axis("y", scene.y.title, scene.y_domain)
    return alt.Y("y:Q", title=scene.y.title, scale=_scale(scene.y_domain), axis=alt.Axis(labelExpr=SHORT))


def _is_logarithmic(scene: Scene) -> bool:
    """Return whether ratios are drawn, as on the other pages; bars begin at zero."""
    return scene.y.unit == "×" and scene.y_domain is not None and scene.y_domain[0] > 0


def _scale(domain: tuple[float, float] | None) -> alt.Scale:
    return alt.Scale(zero=False) if domain is None else alt.Scale(domain=list(domain), nice=False, zero=False)


def _written(rows: pd.DataFrame, scene: Scene) -> pd.DataFrame:
    """Return the rows with the numbers of both axes in writing, for tooltips."""
    numbers_of = {field: axis for field, axis in (("x", scene.x), ("y", scene.y)) if axis.kind == "number"}
    return rows.assign(**{f"{field}_written": rows[field].map(number) for field in numbers_of})


def _tip(axis: Axis, field: str) -> alt.Tooltip:
    if axis.kind == "number":
        return alt.Tooltip(f"{field}_written:N", title=axis.title)
    if axis.kind == "time":
        return alt.Tooltip(f"{field}:T", timeUnit="utcyearmonthdatehoursminutes", title=axis.title)
    return alt.Tooltip(f"{field}:N", title=axis.title)


def _mean_tooltip(scene: Scene) -> list[alt.Tooltip]:
    mean = ("y_written:N", f"Mean [95 %]: {scene.y.title}")
    return tips("series", _tip(scene.x, "x"), mean, *_VERDICT, ("runs:Q", "Runs"))


def span(values: Sequence[float] | pd.Series, *, from_zero: bool) -> tuple[float, float]:
    """Return a common range with some room, for panels side by side."""
    low, high = (float(min(values)), float(max(values))) if len(values) else (0.0, 1.0)
    room = 0.06 * (high - low or abs(high) or 1.0)
    return (min(0.0, low), high + room) if from_zero else (low - room, high + room)


def on_frontier(
    x: NDArray[np.float64], y: NDArray[np.float64], *, higher_x: bool = True, higher_y: bool = True
) -> NDArray[np.bool_]:
    """Return whether each point (x, y) is on the Pareto frontier. Equal points all are; points with NaN never are."""
    across, up = (x if higher_x else -x), (y if higher_y else -y)
    is_known = ~(np.isnan(x) | np.isnan(y))
    is_on_frontier = np.zeros(x.shape, dtype=np.bool_)
    order = np.lexsort((-up, -across))  # from the best x on; of equal ones the best y first
    highest, at = -np.inf, np.nan
    for index in order[is_known[order]]:
        if up[index] > highest or (up[index] == highest and across[index] == at):
            is_on_frontier[index] = True
            highest, at = up[index], across[index]
    return is_on_frontier


def counts_of(rows: pd.DataFrame) -> Counts:
    """Return the counts of all groups of `slices.pooled` together."""
    added = rows.groupby("bucket")["count"].sum()
    return dict(zip(added.index.tolist(), added.tolist(), strict=True))


def shares(rows: pd.DataFrame, most: int = _STEPS) -> pd.DataFrame:
    """Return a table with series, ms and share: at most `most` steps per series."""
    curves = []
    for name, group in rows.groupby("series", sort=False):
        values, reached = cumulative(counts_of(group), most)
        curves.append(pd.DataFrame({"series": name, "ms": values, "share": reached}))
    return pd.concat(curves, ignore_index=True)


def percentiles(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `by`, values (their number), p50, p90, p95, p99 in ms, always of the pooled values."""
    rows_of_groups = []
    for key, group in rows.groupby(by, sort=False):
        counts = counts_of(group)
        row = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        row |= {"values": sum(counts.values())} | {f"p{q}": quantile(counts, q / 100) for q in PERCENTILES}
        rows_of_groups.append(row)
    return pd.DataFrame(rows_of_groups)


def ecdf(drawn: pd.DataFrame, scene: Scene) -> alt.LayerChart:
    """Draw distributions. `drawn` comes from `shares`; the x axis is logarithmic if no value is zero."""
    logarithmic = bool(len(drawn)) and float(drawn["ms"].min()) > 0
    scale = alt.Scale(type="log" if logarithmic else "linear", nice=False)
    if scene.x_domain is not None:
        scale.domain = list(scene.x_domain)
    base = alt.Chart(drawn).encode(
        x=alt.X(
            "ms:Q", title=scene.x.title, scale=scale, axis=alt.Axis(labelExpr=SHORT, labelOverlap=True, tickCount=8)
        ),
        y=share_axis("share", "Values up to this time (%)"),
        color=colour(scene.styles, "series"),
    )
    lines = base.mark_line(strokeWidth=2, interpolate="step-after").encode(strokeDash=dash(scene.styles))
    near = with_written(base.mark_point(opacity=0, size=60), "ms").encode(
        tooltip=tips(
            *("series", number_tooltip("ms", scene.x.title), ("share:Q", "Values up to this time", ".1%")),
        )
    )
    rules = alt.Chart(pd.DataFrame({"share": [0.5, 0.95]})).mark_rule(
        strokeDash=[3, 3], color=INKS[scene.mode].muted, opacity=0.6
    )  # where the median and p95 are read off
    return alt.LayerChart(layer=[rules.encode(y=alt.Y("share:Q")), lines, near], height=scene.height)


def bands(drawn: pd.DataFrame, style: ArmStyle, scene: Scene) -> alt.LayerChart:
    """Draw bands. `drawn` has the `percentiles` of one series, with the position on the x axis in `x`."""
    base = alt.Chart(drawn).encode(x=_ordinal_x(scene, alt.Scale(type="point", padding=0.35)))
    scale = alt.Scale(nice=False) if scene.y_domain is None else alt.Scale(domain=list(scene.y_domain), nice=False)
    alone = len(drawn) == 1
    layers = []
    for low, high, opacity in reversed(_BANDS):
        mark = (
            base.mark_rule(strokeWidth=26, opacity=opacity, color=style.colour)
            if alone
            else base.mark_area(opacity=opacity, color=style.colour)
        )
        layers.append(mark.encode(y=alt.Y(f"{low}:Q", title=scene.y.title, scale=scale), y2=alt.Y2(f"{high}:Q")))
    line = base.mark_line(strokeWidth=2, color=style.colour).encode(y=alt.Y("p50:Q", scale=scale))
    dots = base.mark_point(filled=True, size=60, opacity=1, color=style.colour, shape=style.shape)
    dots = with_written(dots, *(f"p{q}" for q in PERCENTILES))
    written = (number_tooltip(f"p{q}", f"p{q}, ms") for q in PERCENTILES)
    tooltip = tips("series", ("x:N", scene.x.title), *written, ("values:Q", "Values", ","))
    return alt.LayerChart(layer=[*layers, line, dots.encode(y=alt.Y("p50:Q"), tooltip=tooltip)], height=scene.height)
