"""Nights of a series over time: values with intervals, what was predicted, alarms, versions and annotations."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lab.metrics.catalogue import BY_NAME
from webapp.charts.marks import tips
from webapp.charts.theme import INKS, Mode

_HEIGHT, _SMALL_HEIGHT, _WALL_HEIGHT = 300, 200, 90
_DAY = "%d %b"
_TIME = alt.X(
    "due_at:T",
    title="Night (UTC)",
    axis=alt.Axis(labelOverlap="greedy", tickCount=8, format=_DAY),
    scale=alt.Scale(type="utc", padding=14),
)
#: How a night is drawn, by its word: it stands in the tooltip too.
WORDS = ("usual", "learning", "suspicious", "outlier", "rise", "fall")


def _around(rows: pd.DataFrame, *columns: str) -> tuple[float, float]:
    """Return the range of these columns with some room: an axis from zero would hide what changes."""
    values = pd.concat([rows[column] for column in columns]).dropna()
    if values.empty:
        return 0.9, 1.1
    least, most = float(values.min()), float(values.max())
    room = max(0.12 * (most - least), 0.01 * abs(most))
    return least - room, most + room


def _scale(reach: tuple[float, float]) -> alt.Scale:
    return alt.Scale(domain=list(reach), nice=False)


def _points(rows: pd.DataFrame, field: str, mode: Mode, size: int) -> alt.Chart:
    """Draw a point per value: falls in the colour of losses and large, outliers and doubtful ones hollow."""
    ink = INKS[mode]
    colours = [ink.arms[0], ink.baseline, ink.arms[4], ink.baseline, ink.arms[2], ink.loss]
    fills = [ink.arms[0], ink.baseline, ink.ground, ink.ground, ink.arms[2], ink.loss]
    scale = alt.Scale(domain=list(WORDS), range=colours)
    tooltip = tips(
        *(("due:N", "Due (UTC)"), ("written:N", "Speed-up [95 %]"), ("length:N", BY_NAME["acceptance_length"].label)),
        *(("word:N", "Finding"), ("label:N", "Commit"), ("engine_version:N", "Engine"), ("hardware:N", "Hardware")),
    )
    drawn: alt.Chart = (
        alt.Chart(rows)
        .mark_point(size=size, strokeWidth=2, opacity=1)
        .encode(
            x=_TIME,
            y=alt.Y(f"{field}:Q"),
            stroke=alt.Stroke("word:N", scale=scale, legend=None),
            fill=alt.Fill("word:N", scale=alt.Scale(domain=list(WORDS), range=fills), legend=None),
            shape=alt.Shape(
                "word:N",
                scale=alt.Scale(domain=list(WORDS), range=["circle"] * 4 + ["triangle-up", "triangle-down"]),
                legend=None,
            ),
            tooltip=tooltip,
        )
    )
    return drawn


def speedups(rows: pd.DataFrame, notes: pd.DataFrame, mode: Mode) -> alt.LayerChart:
    """Draw the speed-up of each night, the predicted range behind it, new versions below and annotations above."""
    ink = INKS[mode]
    reach = _around(rows, "speedup", "low", "high", "predicted_low", "predicted_high")
    scale = _scale(reach)
    y = alt.Y("speedup:Q", title="Speed-up (×)", scale=scale)
    rows = rows.assign(floor=reach[0])
    base = alt.Chart(rows)
    band = base.mark_area(color=ink.arms[0], opacity=0.13, interpolate="step").encode(
        x=_TIME, y=alt.Y("predicted_low:Q", scale=scale, stack=None), y2="predicted_high:Q"
    )
    rules = base.mark_rule(color=ink.muted, strokeWidth=1.2)
    bars = rules.encode(x=_TIME, y=alt.Y("low:Q", scale=scale), y2="high:Q")
    line = base.mark_line(color=ink.arms[0], opacity=0.45, strokeWidth=1).encode(x=_TIME, y=y)
    ticks = alt.Chart(rows[rows["is_new_version"]]).mark_text(
        align="left", baseline="bottom", dx=3, dy=-3, fontSize=11, color=ink.muted
    )
    floor = alt.Y("floor:Q", scale=scale)
    versions = ticks.encode(x=_TIME, y=floor, text="engine_version:N")
    marks = alt.Chart(rows[rows["is_new_version"]]).mark_tick(orient="vertical", color=ink.muted, thickness=2, size=12)
    noted = alt.Chart(notes).mark_rule(color=ink.muted, strokeDash=[3, 3]).encode(x=alt.X("due_at:T"))
    words = alt.Chart(notes).mark_text(align="left", baseline="top", dx=4, dy=2, fontSize=11, color=ink.text)
    missing = alt.Chart(rows[rows["speedup"].isna()]).mark_text(text="✕", color=ink.loss, fontSize=12, dy=-8)
    layers = [
        *(band, noted, words.encode(x=alt.X("due_at:T"), y=alt.value(0), text="text:N"), bars, line),
        *(marks.encode(x=_TIME, y=floor), versions),
        missing.encode(x=_TIME, y=floor, tooltip=tips(("due:N", "Due (UTC)"), ("why:N", "No value"))),
        _points(rows[rows["speedup"].notna()], "speedup", mode, 65),
    ]
    return alt.LayerChart(layer=layers, height=_HEIGHT)


def small(rows: pd.DataFrame, mode: Mode) -> alt.LayerChart:
    """Draw the speed-ups as a small multiple."""
    ink, base = INKS[mode], alt.Chart(rows[rows["speedup"].notna()])
    scale = _scale(_around(rows, "speedup"))
    y = alt.Y(
        "speedup:Q", title=None, scale=scale, axis=alt.Axis(tickCount=2, labelExpr="format(datum.value, '.2f') + '×'")
    )
    axis = alt.Axis(tickCount=3, labelOverlap="greedy", format=_DAY)
    x = alt.X("due_at:T", title=None, axis=axis, scale=alt.Scale(type="utc"))
    line = base.mark_line(color=ink.arms[0], strokeWidth=1.5).encode(x=x, y=y)
    odd = rows["word"].isin(["fall", "rise", "suspicious", "outlier"])
    return alt.LayerChart(
        layer=[line, _points(rows[odd & rows["speedup"].notna()], "speedup", mode, 40)], height=_WALL_HEIGHT
    )


def lengths(rows: pd.DataFrame, mode: Mode) -> alt.LayerChart:
    """Draw the acceptance length of each night."""
    known = rows[rows["acceptance_length"].notna()].assign(word=lambda frame: frame["acceptance_word"])
    y = alt.Y("acceptance_length:Q", title="Tokens per round", scale=_scale(_around(known, "acceptance_length")))
    line = alt.Chart(known).mark_line(color=INKS[mode].arms[0], opacity=0.45, strokeWidth=1).encode(x=_TIME, y=y)
    return alt.LayerChart(layer=[line, _points(known, "acceptance_length", mode, 45)], height=_SMALL_HEIGHT)


def rates(rows: pd.DataFrame, mode: Mode) -> alt.LayerChart:
    """Draw the baseline's own throughput: grey, as everywhere, and a colour for each other hardware."""
    title = BY_NAME["output_tok_per_s"].title
    known = rows[rows["baseline_tok_per_s"].notna()]
    base = alt.Chart(known).encode(
        x=_TIME,
        y=alt.Y("baseline_tok_per_s:Q", title=title, scale=_scale(_around(known, "baseline_tok_per_s"))),
        color=alt.Color("hardware:N", title=None, scale=alt.Scale(range=[INKS[mode].baseline, *INKS[mode].arms])),
        tooltip=tips(("due:N", "Due (UTC)"), ("baseline_tok_per_s:Q", title, ".1f"), ("hardware:N", "Hardware")),
    )
    return alt.LayerChart(
        layer=[base.mark_line(strokeWidth=1, opacity=0.5), base.mark_point(filled=True, size=40, opacity=1)],
        height=_SMALL_HEIGHT,
    )
