"""The ratio to the baseline by load, on a logarithmic axis: twice as fast is as far from 1× as half as fast."""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import pandas as pd

from lab.metrics.definition import Metric
from webapp.charts.axes import PANEL_HEIGHT, LoadAxis, Setting, with_load
from webapp.charts.theme import INKS, Mode, colour_scale, shape_scale

#: Ratios a reader recognises; those within the axis become its labels. Where all is close to 1×, steps of 2 %.
_TICKS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.33,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    0.95,
    1,
    1.05,
    1.1,
    1.25,
    1.5,
    1.75,
    2,
    2.5,
    3,
    4,
    5,
    7,
    10,
    20,
)
_FINE_TICKS = tuple(percent / 100 for percent in range(80, 126, 2))
_FINE_LOG2 = 0.4
_MOST_TICKS = 9
#: The share of the better side that the worse side gets at least, so that 1× stands well inside the panel.
_LEAST_SHARE = 0.45


def panel(frame: pd.DataFrame, measure: Metric, setting: Setting, domain: tuple[float, float]) -> alt.LayerChart:
    """One panel; `frame` has the candidates' rows of `queries.speedup` for one category."""
    rows = labelled(with_load(frame))
    base = alt.Chart(rows).encode(
        x=setting.axis.encoding(padding=0.35), color=alt.Color("arm:N", scale=colour_scale(setting.styles), legend=None)
    )
    y = alt.Y(
        "ratio:Q",
        title=f"{measure.ratio_label} (×)",
        scale=alt.Scale(type="log", base=2, domain=list(domain), nice=False),
        axis=alt.Axis(values=ticks(domain), labelOverlap=False, labelExpr="format(datum.value, '~g') + '×'"),
    )
    points = base.mark_point(filled=True, size=75, opacity=1).encode(
        y=y,
        shape=alt.Shape("arm:N", scale=shape_scale(setting.styles), legend=None),
        tooltip=_tooltip(measure, setting.axis),
    )
    layers = [*_ground(measure, setting.mode, domain), base.mark_line(strokeWidth=2).encode(y=y)]
    if (frame["repeats"] > 1).any():
        layers.append(base.mark_rule(strokeWidth=1.5, opacity=0.75).encode(y="ratio_min:Q", y2="ratio_max:Q"))
    return alt.LayerChart(layer=[*layers, points, *_figures(base, setting.mode)]).properties(height=PANEL_HEIGHT)


def domain(frame: pd.DataFrame) -> tuple[float, float]:
    """The common y range in ratios: everything measured, and 1× well inside."""
    ratios = pd.concat([frame["ratio_min"], frame["ratio_max"]]).dropna()
    logs = [math.log2(ratio) for ratio in ratios if ratio > 0]
    low, high = min([-0.08, *logs]), max([0.08, *logs])
    low, high = min(low, -_LEAST_SHARE * high), max(high, -_LEAST_SHARE * low)
    room = 0.14 * (high - low)
    return 2 ** (low - room), 2 ** (high + room)


def ticks(domain: tuple[float, float]) -> list[float]:
    """Labels of the y axis: 1×, and outwards from it whatever does not crowd the one before."""
    wide = math.log2(domain[1] / domain[0])
    apart, known, chosen = wide / _MOST_TICKS, _FINE_TICKS if wide < _FINE_LOG2 else _TICKS, [1.0]
    for outwards in ([tick for tick in known if tick > 1], [tick for tick in reversed(known) if tick < 1]):
        last = 1.0
        for tick in outwards:
            if domain[0] <= tick <= domain[1] and abs(math.log2(tick / last)) >= apart:
                chosen.append(tick)
                last = tick
    return sorted(chosen)


def labelled(frame: pd.DataFrame) -> pd.DataFrame:
    """Adds `side`: the highest point of a load is labelled above, the lowest below, those between not at all."""
    grouped = frame.groupby("pattern")["ratio"]
    highest, lowest = frame["ratio"] == grouped.transform("max"), frame["ratio"] == grouped.transform("min")
    side = pd.Series("none", index=frame.index).mask(lowest, "below").mask(highest, "above")
    return frame.assign(side=side)


def _ground(measure: Metric, mode: Mode, domain: tuple[float, float]) -> list[alt.Chart]:
    """What lies behind the points: the losing side shaded and named, and the rule at 1×."""
    ink = INKS[mode]
    losing, below, above = ("low", "slower", "faster") if measure.higher_is_better else ("high", "faster", "slower")
    sides = pd.DataFrame({"one": [1.0], "low": [domain[0]], "high": [domain[1]]})
    middles = sides.assign(under=math.sqrt(domain[0]), over=math.sqrt(domain[1]))
    base, words = alt.Chart(sides), alt.Chart(middles)
    right = alt.value("width")
    beside: dict[str, Any] = {
        "xOffset": 11,
        "angle": 270,
        "fontSize": 11,
        "color": ink.muted,
        "fontStyle": "italic",
    }
    return [
        base.mark_rect(color=ink.loss, opacity=0.09).encode(y="one:Q", y2=f"{losing}:Q"),
        base.mark_rule(color=ink.baseline, strokeWidth=1.5, strokeDash=[5, 3]).encode(y="one:Q"),
        words.mark_text(text=below, **beside).encode(x=right, y="under:Q"),
        words.mark_text(text=above, **beside).encode(x=right, y="over:Q"),
    ]


def _figures(base: alt.Chart, mode: Mode) -> list[alt.Chart]:
    """The figures above and below, each on a halo of the page's colour that keeps the rule and the lines off it."""
    ink = INKS[mode]
    text = base.encode(text=alt.Text("ratio:Q", format=".2f"))
    layers = []
    for side, end, dy in (("above", "ratio_max:Q", -13), ("below", "ratio_min:Q", 14)):
        rows = text.transform_filter(alt.datum.side == side).encode(y=end)
        halo = alt.value(ink.ground)
        layers.append(rows.mark_text(dy=dy, fontSize=11, strokeWidth=4).encode(stroke=halo, color=halo))
        layers.append(rows.mark_text(dy=dy, fontSize=11))
    return layers


def _tooltip(measure: Metric, axis: LoadAxis) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("arm:N", title="Arm"),
        alt.Tooltip("category:N", title="Category"),
        alt.Tooltip(f"{axis.column}:N", title=axis.title),
        alt.Tooltip("ratio:Q", title="Ratio, mean of repeats (×)", format=".3f"),
        alt.Tooltip("ratio_min:Q", title="Lowest repeat (×)", format=".3f"),
        alt.Tooltip("ratio_max:Q", title="Highest repeat (×)", format=".3f"),
        alt.Tooltip("value:Q", title=f"Mean, {measure.shown_unit}", format=",.4~g"),
        alt.Tooltip("repeats:Q", title="Repeats"),
    ]
