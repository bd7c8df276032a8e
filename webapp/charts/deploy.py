"""The charts of the Deploy page: speed-up by the number of drafted tokens, and predicted against measured values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from webapp.charts.axes import PANEL_HEIGHT, ratio_axis, ratio_domain, without_wide, written_ratios
from webapp.charts.marks import colour, losing_side, points, shape, tips, whiskers
from webapp.charts.theme import INKS, ArmStyle, Mode

#: Drafts stand this far apart beside their number of tokens, so that their intervals can be told apart.
_APART = 0.1
_TOOLTIP: tuple[str | tuple[str, ...], ...] = (
    ("arm:N", "Setting"),
    ("load:Q", "Requests at once"),
    ("k:Q", "Drafted tokens"),
    ("foreseen:N", "Expected speed-up [90 %]"),
    ("written:N", "Measured [95 %]"),
    ("runs:Q", "Runs of the race"),
    ("fate:N", "Outcome"),
)

#: Room beside the outermost points, as a share of the axis.
_ROOM = 0.08


def tuned_panel(
    frame: pd.DataFrame, domain: tuple[float, float], styles: Sequence[ArmStyle], mode: Mode
) -> alt.LayerChart:
    """Draw one load: what is expected of each setting, what was measured, what is chosen.

    `frame` as `pages.deploy.tuning_data.speedups` gives it, `domain` is that of all loads.
    """
    ink, order = INKS[mode], {style.arm: number for number, style in enumerate(styles)}
    middle = (len(styles) - 1) / 2
    shift = frame["draft"].map(lambda draft: _APART * (order.get(draft, middle) - middle))
    foreseen = written_ratios(frame, ("expected", "at_least", "at_most"))
    rows = _drawn(frame).assign(x=frame["k"] + shift, foreseen=foreseen, written=written_ratios(frame))
    base = alt.Chart(rows).encode(x=_x(frame), color=colour(styles, "draft"))
    y = ratio_axis("expected", "Speed-up over no speculation (×)", domain, clamp=True)
    tooltip = tips(*_TOOLTIP)
    drafted = base.transform_filter("datum.draft != ''")
    measured, guessed = (drafted.transform_filter(f"{sign}isValid(datum.ratio)") for sign in ("", "!"))
    is_guessed = rows["ratio"].isna() & rows["draft"].ne("")  # a layer without marks has no name for a screen reader
    hollow = guessed.mark_point(filled=False, fill=ink.ground, size=45, strokeWidth=1.5, opacity=1)
    layers: list[Any] = [
        *losing_side(domain, mode),
        drafted.mark_area(opacity=0.13).encode(y=alt.Y("at_least:Q"), y2=alt.Y2("at_most:Q")),
        drafted.mark_line(strokeWidth=1.5, opacity=0.75).encode(y=y),
        *([hollow.encode(y=y, shape=shape(styles, "draft"), tooltip=tooltip)] if is_guessed.any() else []),
        whiskers(measured),
        points(measured, styles, "draft", y=alt.Y("ratio:Q"), tooltip=tooltip),
        *_chosen(alt.Chart(rows).encode(x=_x(frame)), mode),
    ]
    return alt.LayerChart(layer=layers, height=PANEL_HEIGHT)


def tuned_domain(frame: pd.DataFrame) -> tuple[float, float]:
    """Return the common y range: every speed-up, and as much of the intervals as leaves the speed-ups readable."""
    frame = _drawn(frame)
    low, high = frame[["low", "at_least", "expected"]].min(axis=1), frame[["high", "at_most", "expected"]].max(axis=1)
    return ratio_domain(pd.DataFrame({"ratio": frame["expected"], "low": low, "high": high}))


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    return without_wide(without_wide(frame), ("expected", "at_least", "at_most"))


def _x(frame: pd.DataFrame) -> alt.X:
    ks = sorted(frame["k"].unique().tolist())
    scale = alt.Scale(domain=[ks[0] - 0.4, ks[-1] + 0.4], nice=False, zero=False)
    return alt.X("x:Q", title="Drafted tokens (k)", scale=scale, axis=alt.Axis(values=ks, format="d"))


def _chosen(base: alt.Chart, mode: Mode) -> list[Any]:
    """Draw a ring around the chosen setting, with its number of tokens."""
    ink = INKS[mode]
    at_choice = base.transform_filter("datum.is_chosen").transform_calculate(
        shown="isValid(datum.ratio) ? datum.ratio : datum.expected"
    )
    ring = at_choice.mark_point(shape="circle", filled=False, size=320, strokeWidth=2, color=ink.text, opacity=1)
    words = at_choice.mark_text(dy=-18, fontSize=12, fontWeight=600, color=ink.text)
    return [
        ring.encode(y=alt.Y("shown:Q"), tooltip=tips(*_TOOLTIP)),
        words.encode(y=alt.Y("shown:Q"), text=alt.Text("label:N")),
    ]


def predicted_panel(frame: pd.DataFrame, about: str, styles: Sequence[ArmStyle], mode: Mode) -> alt.LayerChart:
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
