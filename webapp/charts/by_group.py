"""The charts of turns and contexts: what changes along a session, and where speculation pays over two axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from lab.metrics.catalogue import BY_NAME
from webapp.charts.axes import PANEL_HEIGHT
from webapp.charts.marks import (
    colour,
    gain_colours,
    is_dark,
    number_tooltip,
    points,
    tile_text,
    tiles,
    tips,
    vain_to_best,
    whiskers,
    with_written,
)
from webapp.charts.theme import INKS, ArmStyle, Mode

#: Height of each context's row, and of the axis below.
_ROW_HEIGHT, _FOOT_HEIGHT = 46, 74
#: The same for each context of a surface, whose cells have three lines.
_SURFACE_ROW_HEIGHT = 60
#: The distance of a crossing from the middle of its row.
_CROSSING_OFFSET = 23
#: Whether the interval of a crossing is known on one side, and on both.
_IS_BOUNDED, _IS_SURE = (f"isValid(datum.low) {sign} isValid(datum.high)" for sign in ("||", "&&"))
_LENGTH = BY_NAME["acceptance_length"].label


def steps_panel(frame: pd.DataFrame, title: str, axis: str, styles: Sequence[ArmStyle]) -> alt.LayerChart:
    """Draw values by turn or context: columns arm, step (in order), value, low, high, words, requests."""
    order = list(dict.fromkeys(frame.sort_values("order")["step"]))
    scale, level = alt.Scale(type="point", padding=0.4), alt.Axis(labelAngle=0, labelOverlap="greedy")
    x = alt.X("step:O", sort=order, title=axis, scale=scale, axis=level)
    base = alt.Chart(frame).encode(x=x, color=colour(styles))
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=False, nice=True))
    layers: list[Any] = [base.mark_line(strokeWidth=2).encode(y=y)]
    if frame["low"].notna().any():
        layers.append(whiskers(base, opacity=0.8))
    tooltip = tips(
        *("arm", ("step:N", "Turn or context"), number_tooltip("value", "Value")),
        *(("words:N", "Ratio to the baseline [95 %]"), "requests"),
    )
    layers.append(points(with_written(base, "value"), styles, y=y, tooltip=tooltip))
    return alt.LayerChart(layer=layers, height=PANEL_HEIGHT)


def surface_panel(cells: pd.DataFrame, crossings: pd.DataFrame, reach: float, mode: Mode) -> alt.LayerChart:
    """Draw one candidate's gains over concurrency and context, with the concurrency where each context breaks even.

    `cells`: concurrency, row (the context), order, gain, interval, written, length, needed, word, requests, arm.
    `crossings`: row, at, low, high. `reach`: of the colours of all panels, in log2.
    """
    log2 = [max(-reach, min(reach, math.log2(gain))) for gain in cells["gain"]]
    shown = _with_borders(cells).assign(
        log2=log2,
        needs=[f"needs {needed}" if needed else "" for needed in cells["needed_value"]],
        is_dark=[is_dark(mode, value / reach) for value in log2],
    )
    order = list(dict.fromkeys(cells.sort_values("order", ascending=False)["row"]))
    domain = [shown["left"].min(), shown["right"].max()]
    scale = alt.Scale(type="log", base=2, domain=domain, nice=False)
    measured = sorted(cells["concurrency"].unique().tolist())
    across = alt.Axis(values=measured, format="d", grid=False, labelOverlap="greedy")
    y = alt.Y("row:N", sort=order, title="Context up to (tokens)", axis=alt.Axis(grid=False, ticks=False, domain=False))
    base = alt.Chart(shown).encode(y=y)
    gains = tiles(
        base,
        mode,
        x=alt.X("left:Q", scale=scale, title="Concurrency (requests in flight)", axis=across),
        x2=alt.X2("right:Q"),
        color=alt.Color("log2:Q", scale=gain_colours(mode, reach), legend=None),
        tooltip=tips(
            "arm",
            ("concurrency:Q", "Concurrency"),
            ("row:N", "Context (tokens)"),
            ("written:N", "Gain in time per token [95 %]"),
            ("length:Q", _LENGTH, ".2f"),
            ("needed:N", "Breaks even at length [95 %]"),
            ("word:N", "Verdict"),
            "requests",
        ),
    )
    words = [
        tile_text(base, name, dy, size).encode(x=alt.X("concurrency:Q"))
        for name, dy, size in (("figure", -16, 13), ("interval", -1, 10), ("needs", 12, 10))
    ]
    layers: list[Any] = [gains, *_line(crossings, y, domain, mode), *words]
    return alt.LayerChart(layer=layers, height=_SURFACE_ROW_HEIGHT * len(order) + _FOOT_HEIGHT)


def _with_borders(cells: pd.DataFrame) -> pd.DataFrame:
    """Add the borders of each cell, half-way to its neighbours on a logarithmic axis."""
    measured = sorted(cells["concurrency"].unique().tolist())
    middles = [math.sqrt(left * right) for left, right in itertools.pairwise(measured)]
    first = measured[0] ** 2 / middles[0] if middles else measured[0] / 1.5
    last = measured[-1] ** 2 / middles[-1] if middles else measured[-1] * 1.5
    borders = [first, *middles, last]
    lefts, rights = dict(zip(measured, borders, strict=False)), dict(zip(measured, borders[1:], strict=True))
    return cells.assign(left=cells["concurrency"].map(lefts), right=cells["concurrency"].map(rights))


def _line(crossings: pd.DataFrame, y: alt.Y, domain: Sequence[float], mode: Mode) -> list[Any]:
    """Mark where each context crosses 1×, with its interval, up to the measured range if one side is unbounded.

    A mark whose interval is unknown on a side is pale. Both lie at the foot of the row, below its words.
    """
    if crossings.empty:
        return []
    known = crossings.assign(
        drawn_low=crossings["low"].fillna(domain[0]).clip(*domain),
        drawn_high=crossings["high"].fillna(domain[1]).clip(*domain),
    )
    tooltip = tips(("row:N", "Context (tokens)"), ("at:Q", "Crosses 1× at concurrency", ".1f"), "low", "high")
    base = alt.Chart(known).encode(y=y, tooltip=tooltip)
    ink = INKS[mode].text
    bands = (
        base.transform_filter(_IS_BOUNDED)
        .mark_bar(height=4, yOffset=_CROSSING_OFFSET, color=ink, opacity=0.45)
        .encode(x=alt.X("drawn_low:Q"), x2=alt.X2("drawn_high:Q"))
    )
    ticks = base.mark_tick(orient="vertical", thickness=4, size=12, yOffset=_CROSSING_OFFSET, color=ink)
    opacity = alt.OpacityValue(0.4, condition={"test": _IS_SURE, "value": 1.0})
    return [bands, ticks.encode(x=alt.X("at:Q"), opacity=opacity)]


def matrix_panel(frame: pd.DataFrame, mode: Mode) -> alt.LayerChart:
    """Draw acceptance lengths: columns arm, category, length, figure, interval, k, prompts, rounds (`tables.matrix`).

    The colour goes from 1, where drafting gains nothing, to the greatest length that the drafts allow.
    """
    most = float(frame["k"].max()) + 1
    bare: dict[str, Any] = {"grid": False, "domain": False, "ticks": False}
    scale = alt.Scale(domain=[1, most], range=list(vain_to_best(mode)), interpolate="rgb")
    dark = [is_dark(mode, (length - 1) / (most - 1)) for length in frame["length"]]
    base = alt.Chart(frame.assign(is_dark=dark)).encode(
        x=alt.X("category:N", title=None, axis=alt.Axis(orient="top", labelAngle=0, **bare)),
        y=alt.Y("arm:N", sort=None, title=None, axis=alt.Axis(labelLimit=220, **bare)),
    )
    lengths = tiles(
        base,
        mode,
        color=alt.Color("length:Q", scale=scale, legend=None),
        tooltip=tips("arm", "category", ("figure:N", _LENGTH), ("interval:N", "95 %"), "prompts", "rounds"),
    )
    words = [tile_text(base, "figure", -8, 13), tile_text(base, "interval", 8, 10)]
    return alt.LayerChart(layer=[lengths, *words], height=_ROW_HEIGHT * frame["arm"].nunique() + _FOOT_HEIGHT)
