"""The charts of the Compare page: a map of ratios, break-even, latencies of single requests, acceptance by
position, quality of answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import altair as alt
import pandas as pd

from lab.comparison.verdict import MARKS
from lab.metrics.number_format import bounds, times
from webapp.charts.axes import PANEL_HEIGHT, SHORT, ratio_axis, share_axis, without_wide, written_ratios
from webapp.charts.marks import (
    colour,
    gain_colours,
    is_dark,
    losing_side,
    number_tooltip,
    points,
    points_by_verdict,
    shape,
    tile_text,
    tiles,
    tips,
    whiskers,
    with_written,
)
from webapp.charts.theme import INKS, ArmStyle, Mode

#: A ratio this far from 1× (in log2) at least has the full colour, so that a table of small ones does not shout.
_LEAST_REACH = 0.25
#: Height of a row with two lines, and of the column names above.
_ROW_HEIGHT, _HEAD_HEIGHT, _LINE = 40, 62, 8
#: Approximate width of a letter, the least of a column, and the most for a name; tooltips have the whole name.
_LETTER_WIDTH, _FIGURES_WIDTH, _MOST_WIDTH = 6.2, 70, 220
#: Approximate widths of a letter of the two lines in a cell, and of its margins, in the widest font that may draw them.
_FIGURE_LETTER, _INTERVAL_LETTER, _CELL_MARGINS = 8.5, 5.4, 4
_FIGURE_SIZE, _INTERVAL_SIZE, _MEAN_OPACITY = 13, 10, 0.78
#: Room for names of columns where the page's font is not installed, as in exported files.
_WIDER_FONT = 16
_CONCURRENCY = "Concurrency (requests in flight)"
#: Points of one concurrency are set apart by this factor, so that their intervals can be told apart.
_APART = 1.035
#: The axis is logarithmic if the slowest request takes this many times as long as the fastest.
_WIDE = 20.0
#: The height of a figure beside its mark, as a share of the panel's.
_LINE_HEIGHT = 0.075
_SHARES = {
    "acceptance": "Rounds accepted up to this position (%)",
    "conditional": "Accepted, given all before were (%)",
}

#: The height of an arm's row and of the axis below, and the smallest difference that is drawn, in points.
_ARM_HEIGHT, _AXIS_HEIGHT, _LEAST_POINTS = 60, 84, 8.0


@dataclass(frozen=True)
class Side:
    """One side of the map: its title, and its values in order."""

    title: str
    order: tuple[str, ...]

    @property
    def name_width(self) -> int:
        """Width in pixels of the side's longest name."""
        return min(_MOST_WIDTH, 8 + round(_LETTER_WIDTH * max(map(len, self.order), default=0)))

    @property
    def column_width(self) -> int:
        return max(_FIGURES_WIDTH, self.name_width)


def heat_panel(
    frame: pd.DataFrame, rows: Side, columns: Side, reach: float, mode: Mode, *, higher: bool
) -> alt.LayerChart:
    """Draw a candidate's cells (`pages.compare.tables.heat`). `reach`: of all panels; `higher`: above 1× is better."""
    with_ratio = frame[frame["ratio"].notna()]
    log2 = [max(-reach, min(reach, math.log2(ratio))) for ratio in with_ratio["ratio"]]
    shown = with_ratio.assign(
        log2=log2,
        figure=_figures(with_ratio),
        interval=_intervals(with_ratio),
        written=written_ratios(with_ratio),
        words=with_ratio["verdict"].map(lambda word: word or "none: a mean"),
        is_dark=[
            is_dark(mode, value / reach, higher=higher, opacity=_MEAN_OPACITY if is_mean else 1.0)
            for value, is_mean in zip(log2, with_ratio["is_mean"], strict=True)
        ],
    )
    above = _axis("top", columns.column_width + _WIDER_FONT)
    base = alt.Chart(shown).encode(
        x=alt.X("column:N", sort=list(columns.order), title=None, axis=above),
        y=alt.Y("row:N", sort=list(rows.order), title=None, axis=_axis("left", rows.name_width)),
    )
    cells = tiles(
        base,
        mode,
        color=alt.Color("log2:Q", scale=gain_colours(mode, reach, higher=higher), legend=None),
        opacity=alt.OpacityValue(1, condition={"test": "datum.is_mean", "value": _MEAN_OPACITY}),
        tooltip=tips(
            *("arm", ("row:N", rows.title), ("column:N", columns.title), "written", ("words:N", "Verdict"), "basis"),
        ),
    )
    whole, alone = (base.transform_filter(f"datum.interval {sign} ''") for sign in ("!=", "=="))
    lines = [
        tile_text(whole, "figure", -_LINE, _FIGURE_SIZE, fontWeight=600),
        tile_text(alone, "figure", 0, _FIGURE_SIZE, fontWeight=600),
        tile_text(base, "interval", _LINE, _INTERVAL_SIZE),
    ]
    return alt.LayerChart(layer=[cells, *lines], height=_HEAD_HEIGHT + _ROW_HEIGHT * len(rows.order))


def heat_reach(frame: pd.DataFrame) -> float:
    """Return the range of colours (in log2) on either side of 1×, for all panels."""
    ratios = frame.loc[frame["ratio"].gt(0), "ratio"]
    return max([_LEAST_REACH, *(abs(math.log2(ratio)) for ratio in ratios)])


def heat_width(frame: pd.DataFrame, rows: Side, columns: Side) -> int:
    """Return the least width of a panel in pixels, so that neither names nor the cells' figures overlap."""
    cells = frame[frame["ratio"].notna()]
    lines = ((_figures(cells), _FIGURE_LETTER), (_intervals(cells), _INTERVAL_LETTER))
    needed = max(letter_px * max(map(len, texts), default=0) for texts, letter_px in lines)
    return rows.name_width + max(columns.column_width, round(needed) + _CELL_MARGINS) * len(columns.order)


def _figures(cells: pd.DataFrame) -> list[str]:
    return list(map(_figure, *(cells[name] for name in ("ratio", "low", "high", "verdict"))))


def _intervals(cells: pd.DataFrame) -> list[str]:
    return list(map(bounds, *(cells[name] for name in ("ratio", "low", "high"))))


def _figure(ratio: float, low: float, high: float, verdict: Any) -> str:
    mark = MARKS.get(verdict, "")  # a mean has no verdict
    return f"{times(ratio, low, high)} {mark}".rstrip()


def _axis(orient: Literal["top", "left"], limit: int) -> alt.Axis:
    return alt.Axis(orient=orient, labelAngle=0, labelLimit=limit, grid=False, domain=False, ticks=False)


@dataclass(frozen=True)
class RatioSetting:
    """Settings that the panels of one figure share. `domain`: of the ratios; `loss_is_low`: below 1× is worse."""

    title: str
    domain: tuple[float, float]
    styles: tuple[ArmStyle, ...]
    mode: Mode
    loss_is_low: bool


def break_even_panel(gains: pd.DataFrame, crossings: pd.DataFrame, setting: RatioSetting) -> alt.LayerChart:
    """Draw a workload; `gains` and `crossings` are from `pages.compare.tables`, for several concurrencies."""
    middle = (len(setting.styles) - 1) / 2
    apart = {style.arm: _APART ** (number - middle) for number, style in enumerate(setting.styles)}
    rows = without_wide(gains.assign(written=written_ratios(gains), x=gains["concurrency"] * gains["arm"].map(apart)))
    measured = sorted(gains["concurrency"].unique().tolist())
    scale = alt.Scale(type="log", base=2, domain=[measured[0] / 1.3, measured[-1] * 1.3], nice=False)
    x = alt.X("x:Q", title=_CONCURRENCY, scale=scale, axis=alt.Axis(values=measured, format="d", labelOverlap="greedy"))
    y = ratio_axis("ratio", setting.title, setting.domain, clamp=True)
    base = alt.Chart(rows).encode(x=x, color=colour(setting.styles))
    layers: list[Any] = [
        *losing_side(setting.domain, setting.mode, loss_is_low=setting.loss_is_low),
        base.mark_line(strokeWidth=2).encode(y=y),
    ]
    if rows["low"].notna().any():
        layers.append(whiskers(base, opacity=0.8))
    tooltip = tips("arm", "workload", "pattern", "concurrency", "written", "verdict", "basis")
    layers += [points_by_verdict(base, setting.styles, y=y, tooltip=tooltip), *_crossings(crossings, setting)]
    return alt.LayerChart(layer=layers, height=PANEL_HEIGHT)


def _crossings(crossings: pd.DataFrame, setting: RatioSetting) -> list[Any]:
    """On the rule at 1×: an upright tick where an arm's line crosses it, and a band over the crossing's interval."""
    crossed = crossings[crossings["concurrency"].notna()].assign(one=1.0)
    if crossed.empty:
        return []
    base = alt.Chart(crossed).encode(y=alt.Y("one:Q"), color=colour(setting.styles))
    layers: list[Any] = []
    if (crossed["low"].notna() & crossed["high"].notna()).any():
        layers.append(base.mark_rule(strokeWidth=6, opacity=0.35).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q")))
    marks = base.mark_tick(orient="vertical", size=22, thickness=3, opacity=1)
    tooltip = tips("arm", ("concurrency:Q", "Crosses 1× at concurrency", ".1f"), "low", "high")
    layers.append(marks.encode(x=alt.X("concurrency:Q"), tooltip=tooltip))
    return layers


def ecdf_panel(frame: pd.DataFrame, title: str, styles: Sequence[ArmStyle], mode: Mode) -> alt.LayerChart:
    """`frame` has one latency's rows of `pages.compare.tables.ecdf`; `title` is what it is called, without its unit."""
    base = alt.Chart(frame).encode(
        x=alt.X("value_ms:Q", title=f"{title} (ms)", scale=_scale(frame["value_ms"]), axis=alt.Axis(labelExpr=SHORT)),
        y=share_axis("share", "Requests within this time (%)"),
        color=colour(styles),
        tooltip=tips("arm", number_tooltip("value_ms", f"{title} (ms)"), ("share:Q", "Requests within", ".1%")),
    )
    medians = frame[frame["share"] >= 0.5].groupby("arm", sort=False).head(1)
    halves = alt.Chart(pd.DataFrame({"half": [0.5]})).mark_rule(color=INKS[mode].baseline, strokeDash=[4, 3])
    layers = alt.LayerChart(
        layer=[
            halves.encode(y=alt.Y("half:Q")),
            base.mark_line(strokeWidth=2, interpolate="step-after"),
            points(base.properties(data=medians), styles),
        ]
    )
    return with_written(layers, "value_ms").properties(height=PANEL_HEIGHT)


def _scale(values: pd.Series) -> alt.Scale:
    least, most = float(values.min()), float(values.max())
    if least > 0 and most > _WIDE * least:
        return alt.Scale(type="log", domain=[least, most], nice=False)
    return alt.Scale(zero=False, nice=True)


def position_shares(frame: pd.DataFrame, column: str, styles: Sequence[ArmStyle]) -> alt.LayerChart:
    """Draw acceptance by position. `frame`: of `pages.compare.tables.positions`; `column`: `acceptance` or
    `conditional`.
    """
    base = _by_position(frame[frame[column].notna()], styles, "Position in the draft").encode(
        y=share_axis(column, _SHARES[column])
    )
    marks = points(base, styles, tooltip=_position_tooltip())
    return alt.LayerChart(layer=[base.mark_line(strokeWidth=2), marks], height=PANEL_HEIGHT)


def tokens_per_round(frame: pd.DataFrame, styles: Sequence[ArmStyle], mode: Mode) -> alt.LayerChart:
    """Draw tokens per round by number of drafted tokens: full marks are measured, hollow ones estimated."""
    base = _by_position(frame, styles, "Drafted tokens (k)").encode(
        y=alt.Y("length:Q", title="Tokens per round", scale=alt.Scale(zero=False, nice=True, domainMin=1))
    )
    layers: list[Any] = [base.mark_line(strokeWidth=1.5, strokeDash=[4, 3])]
    for estimated in (True, False):
        rows = base.transform_filter(alt.datum.is_estimate == estimated)
        fill = INKS[mode].ground if estimated else alt.Undefined
        marks = rows.mark_point(filled=not estimated, size=75, strokeWidth=2, opacity=1, fill=fill)
        layers.append(marks.encode(shape=shape(styles), tooltip=_position_tooltip()))
    words = _by_position(_with_labels(frame), styles, "Drafted tokens (k)").mark_text(dx=8, align="left", fontSize=11)
    layers.append(words.encode(y=alt.Y("label:Q"), text=alt.Text("length:Q", format=".2f")))
    return alt.LayerChart(layer=layers, height=PANEL_HEIGHT)


def _with_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the measured rows with non-overlapping heights of their figures in `label`."""
    measured = frame[~frame["is_estimate"]].sort_values("length")
    apart = _LINE_HEIGHT * (float(frame["length"].max()) - 1)
    last: dict[int, float] = {}  # by position, the height of the figure below
    labels = []
    for position, length in zip(measured["position"], measured["length"], strict=True):
        last[position] = max(length, last.get(position, 0.0) + apart)
        labels.append(last[position])
    return measured.assign(label=labels)


def _by_position(frame: pd.DataFrame, styles: Sequence[ArmStyle], title: str) -> alt.Chart:
    scale = alt.Scale(type="point", padding=0.4, domain=sorted(frame["position"].unique().tolist()))
    return alt.Chart(frame).encode(x=alt.X("position:O", title=title, scale=scale), color=colour(styles))


def _position_tooltip() -> list[alt.Tooltip]:
    return tips(
        "arm",
        ("position:O", "Position, or drafted tokens"),
        ("acceptance:Q", "Accepted up to here", ".1%"),
        ("conditional:Q", "Given all before", ".1%"),
        ("length:Q", "Tokens per round with this k", ".2f"),
        ("is_estimate:N", "Estimated"),
        ("rounds:Q", "Rounds measured", ",.0f"),
    )


def quality_panel(rows: pd.DataFrame, margin: float, styles: Sequence[ArmStyle], mode: Mode) -> alt.LayerChart:
    """Draw one workload: a row for each arm; `points`, `low`, `high` and `margin` are in percentage points."""
    reach = max(_LEAST_POINTS, margin, *rows[["low", "high"]].abs().max()) * 1.05
    arms = [style.arm for style in styles if style.arm in set(rows["arm"])]
    y = alt.Y("arm:N", title=None, sort=arms, axis=alt.Axis(labelLimit=200))
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    x = alt.X(
        "points:Q", title="Score minus the baseline's (percentage points)", scale=scale, axis=alt.Axis(tickCount=8)
    )
    base = alt.Chart(rows).encode(y=y, color=colour(styles))
    lines = pd.DataFrame({"at": [0.0, -margin], "kind": ["equal", "margin"]})
    dash = alt.StrokeDash("kind:N", legend=None, scale=alt.Scale(domain=["equal", "margin"], range=[[1, 0], [4, 3]]))
    rules = alt.Chart(lines).mark_rule(color=INKS[mode].muted).encode(x=alt.X("at:Q", scale=scale), strokeDash=dash)
    bars = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q"))
    tooltip = tips(
        "arm",
        "workload",
        ("quality:N", "Answers are"),
        ("score:Q", "Score (%)", ".1f"),
        ("baseline_score:Q", "Baseline (%)", ".1f"),
        ("difference:N", "Difference (points) [95 %]"),
        "prompts",
    )
    points = base.mark_point(filled=True, size=85, opacity=1).encode(x=x, shape=shape(styles), tooltip=tooltip)
    words = base.mark_text(align="left", dx=8, dy=-15, fontSize=12).encode(x=x, text=alt.Text("quality:N"))
    figures = base.mark_text(align="left", dx=8, dy=16, fontSize=11).encode(x=x, text=alt.Text("difference:N"))
    return alt.LayerChart(layer=[rules, bars, points, words, figures], height=_AXIS_HEIGHT + _ARM_HEIGHT * len(arms))
