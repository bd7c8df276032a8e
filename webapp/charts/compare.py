"""The charts of the Compare page: a map of ratios, break-even, latencies of single requests, acceptance by position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import pandas as pd

from lab.comparison.verdict import MARKS
from lab.metrics.number_format import bounds, times
from webapp.charts import results
from webapp.charts.axes import PANEL_HEIGHT, SHORT, number_tooltip, with_written, without_wide, written_ratios
from webapp.charts.theme import INKS, ArmStyle, Mode, colour_scale, shape_scale

#: Worse, neither, better: of Okabe and Ito's colours, told apart by every reader; the middle is a little off the page.
_ENDS: dict[Mode, tuple[str, str, str]] = {
    "light": ("#d55e00", "#f2f4f7", "#0072b2"),
    "dark": ("#e8743b", "#1e2732", "#4ba3e3"),
}
#: A ratio this far from 1× (in log2) at least has the full colour, so that a table of small ones does not shout.
_LEAST_REACH = 0.25
#: A row with two lines; of the whole, what the column names above take.
_ROW_HEIGHT, _HEAD_HEIGHT, _LINE = 40, 62, 8
#: Approximate width of a letter, of a column of figures, and the most for a name; tooltips have the whole name.
_LETTER_WIDTH, _FIGURES_WIDTH, _MOST_WIDTH = 6.2, 70, 220
_HALF_BRIGHT = 128
_CONCURRENCY = "Concurrency (requests in flight)"
#: Points of one concurrency are set apart by this factor, so that their intervals can be told apart.
_APART = 1.035
_BREAK_EVEN_TOOLTIP = [
    alt.Tooltip("arm:N", title="Arm"),
    alt.Tooltip("workload:N", title="Workload"),
    alt.Tooltip("pattern:N", title="Load"),
    alt.Tooltip("concurrency:Q", title=_CONCURRENCY),
    alt.Tooltip("written:N", title="Ratio to the baseline [95 %]"),
    alt.Tooltip("verdict:N", title="Verdict"),
    alt.Tooltip("basis:N", title="Interval from"),
]
_CROSSING = [
    alt.Tooltip("arm:N", title="Arm"),
    alt.Tooltip("concurrency:Q", title="Crosses 1× at concurrency", format=".1f"),
    alt.Tooltip("low:Q", title="95 % from", format=".1f"),
    alt.Tooltip("high:Q", title="95 % to", format=".1f"),
]
#: The axis is logarithmic if the slowest request takes this many times as long as the fastest.
_WIDE = 20.0
#: Of a figure beside its mark: its share of the panel's height.
_LINE_HEIGHT = 0.075
_SHARES = {
    "acceptance": "Rounds accepted up to this position (%)",
    "conditional": "Accepted, given all before were (%)",
}
_POSITION_TOOLTIP = [
    alt.Tooltip("arm:N", title="Arm"),
    alt.Tooltip("position:O", title="Position, or drafted tokens"),
    alt.Tooltip("acceptance:Q", title="Accepted up to here", format=".1%"),
    alt.Tooltip("conditional:Q", title="Given all before", format=".1%"),
    alt.Tooltip("length:Q", title="Tokens per round with this k", format=".2f"),
    alt.Tooltip("is_estimate:N", title="Estimated"),
    alt.Tooltip("rounds:Q", title="Rounds measured", format=",.0f"),
]


@dataclass(frozen=True)
class Side:
    """One side of the map: its title, and its values in order."""

    title: str
    order: tuple[str, ...]


def heat_panel(
    frame: pd.DataFrame, rows: Side, columns: Side, reach: float, mode: Mode, *, higher: bool
) -> alt.LayerChart:
    """One candidate's cells (`pages.compare.tables.heat`). `reach`: of all panels; `higher`: above 1× is better."""
    with_ratio = frame[frame["ratio"].notna()]
    shown = with_ratio.assign(
        log2=with_ratio["ratio"].map(lambda ratio: max(-reach, min(reach, math.log2(ratio)))),
        figure=list(map(_figure, *(with_ratio[name] for name in ("ratio", "low", "high", "verdict")))),
        interval=list(map(bounds, with_ratio["ratio"], with_ratio["low"], with_ratio["high"])),
        written=written_ratios(with_ratio),
        words=with_ratio["verdict"].map(lambda word: word or "none: a mean"),
    )
    shown = shown.assign(is_dark=[is_dark(mode, log2 / reach, higher=higher) for log2 in shown["log2"]])
    base = alt.Chart(shown).encode(
        x=alt.X("column:N", sort=list(columns.order), title=None, axis=_axis("top", _column_width(columns))),
        y=alt.Y("row:N", sort=list(rows.order), title=None, axis=_axis("left", _longest(rows))),
    )
    scale = gain_colours(mode, reach, higher=higher)
    cells = base.mark_rect(stroke=INKS[mode].ground, strokeWidth=2, cornerRadius=3).encode(
        color=alt.Color("log2:Q", scale=scale, legend=None),
        opacity=alt.OpacityValue(1, condition={"test": "datum.is_mean", "value": 0.78}),
        tooltip=_heat_tooltip(rows.title, columns.title),
    )
    ink = alt.ColorValue("#10161d", condition={"test": "datum.is_dark", "value": "#ffffff"})
    above, alone = (base.transform_filter(f"datum.interval {sign} ''") for sign in ("!=", "=="))
    lines = [
        *(
            part.mark_text(dy=dy, fontSize=13, fontWeight=600).encode(text=alt.Text("figure:N"), color=ink)
            for part, dy in ((above, -_LINE), (alone, 0))
        ),
        base.mark_text(dy=_LINE, fontSize=10).encode(text=alt.Text("interval:N"), color=ink),
    ]
    return alt.LayerChart(layer=[cells, *lines], height=_HEAD_HEIGHT + _ROW_HEIGHT * len(rows.order))


def gain_colours(mode: Mode, reach: float, *, higher: bool = True) -> alt.Scale:
    """Colours of log2 of a ratio, up to `reach` on either side of 1×; `higher`: above 1× is better."""
    ends = _ENDS[mode] if higher else _ENDS[mode][::-1]
    return alt.Scale(domain=[-reach, 0, reach], range=list(ends), interpolate="rgb")


def vain_to_best(mode: Mode) -> tuple[str, str]:
    """The colours of the least and the greatest value where none is a loss."""
    return _ENDS[mode][1:]


def heat_reach(frame: pd.DataFrame) -> float:
    """How far (in log2) the colours of all panels go to either side of 1×."""
    ratios = frame.loc[frame["ratio"].gt(0), "ratio"]
    return max([_LEAST_REACH, *(abs(math.log2(ratio)) for ratio in ratios)])


def heat_width(rows: Side, columns: Side) -> int:
    """The least width of a panel in pixels, so that names and figures do not overlap."""
    return _longest(rows) + _column_width(columns) * len(columns.order)


def _column_width(columns: Side) -> int:
    return max(_FIGURES_WIDTH, _longest(columns))


def _longest(side: Side) -> int:
    """Pixels of its longest name."""
    return min(_MOST_WIDTH, 8 + round(_LETTER_WIDTH * max(map(len, side.order), default=0)))


def _figure(ratio: float, low: float, high: float, verdict: Any) -> str:
    mark = MARKS.get(verdict, "")  # a mean has no verdict
    return f"{times(ratio, low, high)} {mark}".rstrip()


def _axis(orient: Literal["top", "left"], limit: int) -> alt.Axis:
    return alt.Axis(orient=orient, labelAngle=0, labelLimit=limit, grid=False, domain=False, ticks=False)


def is_dark(mode: Mode, place: float, *, higher: bool) -> bool:
    """Whether white text is easier to read than black on the cell's colour; `place` is from -1 to 1."""
    worse, middle, better = _ENDS[mode]
    end = better if (place > 0) == higher else worse
    mixed = [_mixed(middle, end, at, abs(place)) for at in (1, 3, 5)]
    luminance = sum(weight * channel for weight, channel in zip((0.299, 0.587, 0.114), mixed, strict=True))
    return luminance < _HALF_BRIGHT


def _mixed(colour: str, other: str, at: int, share: float) -> float:
    left, right = int(colour[at : at + 2], 16), int(other[at : at + 2], 16)
    return left + (right - left) * share


def _heat_tooltip(rows: str, columns: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("arm:N", title="Arm"),
        alt.Tooltip("row:N", title=rows),
        alt.Tooltip("column:N", title=columns),
        alt.Tooltip("written:N", title="Ratio to the baseline [95 %]"),
        alt.Tooltip("words:N", title="Verdict"),
        alt.Tooltip("basis:N", title="Interval from"),
    ]


@dataclass(frozen=True)
class Look:
    """What the panels of one figure share. `domain`: of the ratios; `loss_is_low`: below 1× is worse."""

    title: str
    domain: tuple[float, float]
    styles: tuple[ArmStyle, ...]
    mode: Mode
    loss_is_low: bool


def break_even_panel(gains: pd.DataFrame, crossings: pd.DataFrame, look: Look) -> alt.LayerChart:
    """One workload; `gains` and `crossings` as `pages.compare.tables` gives them, loads of several concurrencies."""
    rows = without_wide(_apart(gains, look.styles))
    y = alt.Y(
        "ratio:Q",
        title=look.title,
        scale=alt.Scale(type="log", base=2, domain=list(look.domain), nice=False, clamp=True),
        axis=alt.Axis(
            values=results.ratio_ticks(look.domain), labelOverlap=False, labelExpr="format(datum.value, '~g') + '×'"
        ),
    )
    base = alt.Chart(rows).encode(x=_x(gains), color=_colour(look))
    layers: list[Any] = [*_ground(look), base.mark_line(strokeWidth=2).encode(y=y)]
    if rows["low"].notna().any():
        layers.append(base.mark_rule(strokeWidth=1.5, opacity=0.8).encode(y=alt.Y("low:Q"), y2=alt.Y2("high:Q")))
    layers.append(
        base.mark_point(filled=True, size=75, opacity=1).encode(y=y, shape=_shape_of(look), tooltip=_BREAK_EVEN_TOOLTIP)
    )
    layers += _crossings(crossings, look)
    return alt.LayerChart(layer=layers, height=PANEL_HEIGHT)


def _apart(gains: pd.DataFrame, styles: tuple[ArmStyle, ...]) -> pd.DataFrame:
    place = {style.arm: number - (len(styles) - 1) / 2 for number, style in enumerate(styles)}
    return gains.assign(
        written=written_ratios(gains), x=gains["concurrency"] * gains["arm"].map(place).map(lambda step: _APART**step)
    )


def _x(gains: pd.DataFrame) -> alt.X:
    measured = sorted(gains["concurrency"].unique().tolist())
    scale = alt.Scale(type="log", base=2, domain=[measured[0] / 1.3, measured[-1] * 1.3], nice=False)
    axis = alt.Axis(values=measured, format="d", labelOverlap="greedy")
    return alt.X("x:Q", title=_CONCURRENCY, scale=scale, axis=axis)


def _colour(look: Look) -> alt.Color:
    return alt.Color("arm:N", scale=colour_scale(look.styles), legend=None)


def _shape_of(look: Look) -> alt.Shape:
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
    crossed = crossings[crossings["concurrency"].notna()].assign(one=1.0)
    if crossed.empty:
        return []
    base = alt.Chart(crossed).encode(y=alt.Y("one:Q"), color=_colour(look))
    layers: list[Any] = []
    if (crossed["low"].notna() & crossed["high"].notna()).any():
        layers.append(base.mark_rule(strokeWidth=6, opacity=0.35).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")))
    marks = base.mark_point(filled=False, fill=INKS[look.mode].ground, size=70, strokeWidth=2, opacity=1)
    layers.append(marks.encode(x=alt.X("concurrency:Q"), shape=_shape_of(look), tooltip=_CROSSING))
    return layers


def ecdf_panel(frame: pd.DataFrame, title: str, styles: Sequence[ArmStyle], mode: Mode) -> alt.LayerChart:
    """`frame` has one latency's rows of `pages.compare.tables.ecdf`; `title` is what it is called, without its unit."""
    base = alt.Chart(frame).encode(
        x=alt.X("value_ms:Q", title=f"{title} (ms)", scale=_scale(frame["value_ms"]), axis=alt.Axis(labelExpr=SHORT)),
        y=alt.Y(
            "share:Q",
            title="Requests within this time (%)",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format=".0%", tickCount=5),
        ),
        color=alt.Color("arm:N", scale=colour_scale(styles), legend=None),
        tooltip=[
            alt.Tooltip("arm:N", title="Arm"),
            number_tooltip("value_ms", f"{title} (ms)"),
            alt.Tooltip("share:Q", title="Requests within", format=".1%"),
        ],
    )
    medians = frame[frame["share"] >= 0.5].groupby("arm", sort=False).head(1)
    halves = alt.Chart(pd.DataFrame({"half": [0.5]})).mark_rule(color=INKS[mode].baseline, strokeDash=[4, 3])
    marks = base.properties(data=medians).mark_point(filled=True, size=75, opacity=1)
    shape = alt.Shape("arm:N", scale=shape_scale(styles), legend=None)
    layers = alt.LayerChart(
        layer=[
            halves.encode(y=alt.Y("half:Q")),
            base.mark_line(strokeWidth=2, interpolate="step-after"),
            marks.encode(shape=shape),
        ]
    )
    return with_written(layers, "value_ms").properties(height=PANEL_HEIGHT)


def _scale(values: pd.Series) -> alt.Scale:
    least, most = float(values.min()), float(values.max())
    if least > 0 and most > _WIDE * least:
        return alt.Scale(type="log", domain=[least, most], nice=False)
    return alt.Scale(zero=False, nice=True)


def position_shares(frame: pd.DataFrame, column: str, styles: Sequence[ArmStyle]) -> alt.LayerChart:
    """`frame` of `pages.compare.tables.positions`; `column` is `acceptance` or `conditional`."""
    base = _base(frame[frame[column].notna()], styles, "Position in the draft").encode(
        y=alt.Y(
            f"{column}:Q",
            title=_SHARES[column],
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format=".0%", tickCount=5),
        )
    )
    points = base.mark_point(filled=True, size=75, opacity=1).encode(
        shape=_shape_of_positions(styles), tooltip=_POSITION_TOOLTIP
    )
    return alt.LayerChart(layer=[base.mark_line(strokeWidth=2), points], height=PANEL_HEIGHT)


def tokens_per_round(frame: pd.DataFrame, styles: Sequence[ArmStyle], mode: Mode) -> alt.LayerChart:
    """Tokens per round by number of drafted tokens: full marks are measured, hollow ones estimated."""
    base = _base(frame, styles, "Drafted tokens (k)").encode(
        y=alt.Y("length:Q", title="Tokens per round", scale=alt.Scale(zero=False, nice=True, domainMin=1))
    )
    layers: list[Any] = [base.mark_line(strokeWidth=1.5, strokeDash=[4, 3])]
    for estimated in (True, False):
        rows = base.transform_filter(alt.datum.is_estimate == estimated)
        fill = INKS[mode].ground if estimated else alt.Undefined
        marks = rows.mark_point(filled=not estimated, size=75, strokeWidth=2, opacity=1, fill=fill)
        layers.append(marks.encode(shape=_shape_of_positions(styles), tooltip=_POSITION_TOOLTIP))
    words = _base(_with_labels(frame), styles, "Drafted tokens (k)").mark_text(dx=8, align="left", fontSize=11)
    layers.append(words.encode(y=alt.Y("label:Q"), text=alt.Text("length:Q", format=".2f")))
    return alt.LayerChart(layer=layers, height=PANEL_HEIGHT)


def _with_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """The measured rows, with the place of each one's figure in `label`: none within a line's height of another."""
    measured = frame[~frame["is_estimate"]].sort_values("length")
    apart = _LINE_HEIGHT * (float(frame["length"].max()) - 1)
    last: dict[int, float] = {}  # by position, the place of the figure below
    labels = []
    for position, length in zip(measured["position"], measured["length"], strict=True):
        last[position] = max(length, last.get(position, 0.0) + apart)
        labels.append(last[position])
    return measured.assign(label=labels)


def _base(frame: pd.DataFrame, styles: Sequence[ArmStyle], title: str) -> alt.Chart:
    order = sorted(frame["position"].unique().tolist())
    scale = alt.Scale(type="point", padding=0.4, domain=order)
    return alt.Chart(frame).encode(
        x=alt.X("position:O", title=title, scale=scale),
        color=alt.Color("arm:N", scale=colour_scale(styles), legend=None),
    )


def _shape_of_positions(styles: Sequence[ArmStyle]) -> alt.Shape:
    return alt.Shape("arm:N", scale=shape_scale(styles), legend=None)
