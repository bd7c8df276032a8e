"""Speed-up by the number of drafted tokens at one load: what is expected of each, what was measured, what is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from webapp.charts import results
from webapp.charts.axes import PANEL_HEIGHT, without_wide, written_ratios
from webapp.charts.theme import INKS, ArmStyle, Mode, colour_scale, shape_scale

#: Drafts stand this far apart beside their number of tokens, so that their intervals can be told apart.
_APART = 0.1
_TOOLTIP = [
    alt.Tooltip("arm:N", title="Setting"),
    alt.Tooltip("load:Q", title="Requests at once"),
    alt.Tooltip("k:Q", title="Drafted tokens"),
    alt.Tooltip("foreseen:N", title="Expected speed-up [90 %]"),
    alt.Tooltip("written:N", title="Measured [95 %]"),
    alt.Tooltip("runs:Q", title="Runs of the race"),
    alt.Tooltip("fate:N", title="What became of it"),
]


def panel(frame: pd.DataFrame, domain: tuple[float, float], styles: Sequence[ArmStyle], mode: Mode) -> alt.LayerChart:
    """One load; `frame` as `pages.tune.data.speedups` gives it, `domain` is that of all loads."""
    ink, place = INKS[mode], {style.arm: number for number, style in enumerate(styles)}
    middle = (len(styles) - 1) / 2
    shift = frame["draft"].map(lambda draft: _APART * (place.get(draft, middle) - middle))
    foreseen = written_ratios(frame, ("expected", "at_least", "at_most"))
    rows = _drawn(frame).assign(x=frame["k"] + shift, foreseen=foreseen, written=written_ratios(frame))
    base = alt.Chart(rows).encode(x=_x(frame), color=alt.Color("draft:N", scale=colour_scale(styles), legend=None))
    y = alt.Y(
        "expected:Q",
        title="Speed-up over no speculation (×)",
        scale=alt.Scale(type="log", base=2, domain=list(domain), nice=False, clamp=True),
        axis=alt.Axis(
            values=results.ratio_ticks(domain), labelOverlap=False, labelExpr="format(datum.value, '~g') + '×'"
        ),
    )
    drafted = base.transform_filter("datum.draft != ''")
    measured, guessed = (drafted.transform_filter(f"{sign}isValid(datum.ratio)") for sign in ("", "!"))
    shape = alt.Shape("draft:N", scale=shape_scale(styles), legend=None)
    hollow = guessed.mark_point(filled=False, fill=ink.ground, size=45, strokeWidth=1.5, opacity=1)
    layers: list[Any] = [
        *_ground(domain, mode),
        drafted.mark_area(opacity=0.13).encode(y=alt.Y("at_least:Q"), y2=alt.Y2("at_most:Q")),
        drafted.mark_line(strokeWidth=1.5, opacity=0.75).encode(y=y),
        hollow.encode(y=y, shape=shape, tooltip=_TOOLTIP),
        measured.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")),
        measured.mark_point(filled=True, size=75, opacity=1).encode(y=alt.Y("ratio:Q"), shape=shape, tooltip=_TOOLTIP),
        *_chosen(alt.Chart(rows).encode(x=_x(frame)), mode),
    ]
    return alt.LayerChart(layer=layers, height=PANEL_HEIGHT)


def domain(frame: pd.DataFrame) -> tuple[float, float]:
    """The common y range: every speed-up, and as much of the intervals as leaves the speed-ups readable."""
    frame = _drawn(frame)
    low, high = frame[["low", "at_least", "expected"]].min(axis=1), frame[["high", "at_most", "expected"]].max(axis=1)
    return results.ratio_domain(pd.DataFrame({"ratio": frame["expected"], "low": low, "high": high}))


def _drawn(frame: pd.DataFrame) -> pd.DataFrame:
    return without_wide(without_wide(frame), ("expected", "at_least", "at_most"))


def _x(frame: pd.DataFrame) -> alt.X:
    ks = sorted(frame["k"].unique().tolist())
    scale = alt.Scale(domain=[ks[0] - 0.4, ks[-1] + 0.4], nice=False, zero=False)
    return alt.X("x:Q", title="Drafted tokens (k)", scale=scale, axis=alt.Axis(values=ks, format="d"))


def _ground(domain: tuple[float, float], mode: Mode) -> list[alt.Chart]:
    """The losing side, and the rule of no speculation."""
    ink = INKS[mode]
    sides = alt.Chart(pd.DataFrame({"one": [1.0], "low": [domain[0]]}))
    return [
        sides.mark_rect(color=ink.loss, opacity=0.09).encode(y=alt.Y("one:Q"), y2=alt.Y2("low:Q")),
        sides.mark_rule(color=ink.baseline, strokeWidth=1.5, strokeDash=[5, 3]).encode(y=alt.Y("one:Q")),
    ]


def _chosen(base: alt.Chart, mode: Mode) -> list[Any]:
    """A ring around the chosen setting, with its number of tokens."""
    ink = INKS[mode]
    at_choice = base.transform_filter("datum.is_chosen").transform_calculate(
        shown="isValid(datum.ratio) ? datum.ratio : datum.expected"
    )
    ring = at_choice.mark_point(shape="circle", filled=False, size=320, strokeWidth=2, color=ink.text, opacity=1)
    words = at_choice.mark_text(dy=-18, fontSize=12, fontWeight=600, color=ink.text)
    return [
        ring.encode(y=alt.Y("shown:Q"), tooltip=_TOOLTIP),
        words.encode(y=alt.Y("shown:Q"), text=alt.Text("label:N")),
    ]
