"""The metrics that the Results page offers, the default first, and its charts.

The charts are ratios to the baseline by load, acceptance by position, and throughput as bars. Links name a metric by
its label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from lab.comparison.verdict import MARKS
from lab.metrics.catalogue import BY_NAME
from lab.metrics.definition import Metric
from lab.metrics.number_format import number, times
from webapp.charts.axes import (
    PANEL_HEIGHT,
    SHORT,
    LoadAxis,
    Setting,
    ratio_axis,
    share_axis,
    with_load,
    without_wide,
    written_ratios,
)
from webapp.charts.marks import (
    DODGE,
    colour,
    dodged,
    losing_side,
    number_tooltip,
    points,
    points_by_verdict,
    tips,
    whiskers,
    with_written,
)
from webapp.charts.theme import INKS, ArmStyle, Mode

MEASURES = tuple(
    BY_NAME[name]
    for name in (
        *("output_tok_per_s", "total_tok_per_s", "request_per_s", "goodput_request_per_s"),
        *("ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms", "e2e_p50_ms", "e2e_p99_ms"),
    )
)
BY_LABEL = {metric.label: metric for metric in MEASURES}

#: Columns that place a row in its panel.
_PLACE = ["arm", "pattern", "concurrency"]
#: More bars than this on one panel leave no room for a figure on each.
_MOST_LABELLED_BARS = 16


def speedup_panel(
    frame: pd.DataFrame, measure: Metric, setting: Setting, domain: tuple[float, float]
) -> alt.LayerChart:
    """Draw a category; `frame` has the candidates' rows of `published_data.cells`. Inconclusive ones are hollow."""
    styles = setting.styles
    rows = dodged(without_wide(with_label_sides(with_load(frame), domain)), "arm", styles)
    base = alt.Chart(rows).encode(x=setting.axis.encoding(padding=0.35), color=colour(styles))
    y = ratio_axis("ratio", f"{measure.ratio_label} (×)", domain)
    marks = points_by_verdict(
        base,
        styles,
        y=y,
        tooltip=tips(
            *("arm", "category", _load(setting.axis), "verdict", "written"),
            *(("mean:N", f"Mean, {measure.shown_unit}"), "repeats"),
        ),
    )
    layers = [*_ratio_ground(measure, setting.mode, domain), base.mark_line(strokeWidth=2, xOffset=DODGE).encode(y=y)]
    if rows["low"].notna().any():
        layers.append(whiskers(base.transform_filter("isValid(datum.low)"), opacity=0.75, clip=True, xOffset=DODGE))
    return alt.LayerChart(layer=[*layers, marks, *_speedup_figures(base, setting.mode)], height=PANEL_HEIGHT)


def _load(axis: LoadAxis) -> tuple[str, str]:
    return f"{axis.column}:N", axis.title


def with_label_sides(frame: pd.DataFrame, domain: tuple[float, float]) -> pd.DataFrame:
    """Adds `side`: the highest point of a load is labelled above, the lowest below, those between not at all; `top` and
    `bottom`, where its label stands within the domain; and `figure`, the ratio with its verdict's mark.
    """
    least, most = (bound * (domain[1] / domain[0]) ** share for bound, share in zip(domain, (0.07, -0.07), strict=True))
    grouped = frame.groupby("pattern")["ratio"]
    highest, lowest = frame["ratio"] == grouped.transform("max"), frame["ratio"] == grouped.transform("min")
    side = pd.Series("none", index=frame.index).mask(lowest, "below").mask(highest, "above")
    marks = frame["verdict"].map(MARKS).fillna("")
    shown = map(times, frame["ratio"], frame["low"], frame["high"])
    figures = [f"{ratio} {mark}".rstrip() for ratio, mark in zip(shown, marks, strict=True)]
    drawn = without_wide(frame)
    return frame.assign(
        side=side,
        top=drawn["high"].fillna(frame["ratio"]).clip(upper=most),
        bottom=drawn["low"].fillna(frame["ratio"]).clip(lower=least),
        figure=figures,
        written=written_ratios(frame),
        mean=frame["value"].map(number),
    )


def _ratio_ground(measure: Metric, mode: Mode, domain: tuple[float, float]) -> list[alt.Chart]:
    """Draw the ground behind the points: the losing side shaded and named, and the rule at 1×."""
    below, above = ("slower", "faster") if measure.higher_is_better else ("faster", "slower")
    middles = alt.Chart(pd.DataFrame({"under": [math.sqrt(domain[0])], "over": [math.sqrt(domain[1])]}))
    right = alt.XValue("width")  # type: ignore[no-untyped-call]  # the only channel without types
    beside: dict[str, Any] = {"xOffset": 11, "angle": 270, "fontSize": 11, "fontStyle": "italic"}
    beside["color"] = INKS[mode].muted
    return [
        *losing_side(domain, mode, loss_is_low=measure.higher_is_better),
        middles.mark_text(text=below, **beside).encode(x=right, y=alt.Y("under:Q")),
        middles.mark_text(text=above, **beside).encode(x=right, y=alt.Y("over:Q")),
    ]


def _speedup_figures(base: alt.Chart, mode: Mode) -> list[alt.Chart]:
    """Draw the figures above and below, each on a halo in the page's colour, so that no line crosses it."""
    ink = INKS[mode]
    text = base.encode(text=alt.Text("figure:N"))
    layers = []
    for side, end, dy in (("above", "top:Q", -13), ("below", "bottom:Q", 14)):
        rows = text.transform_filter(alt.datum.side == side).encode(y=alt.Y(end))
        halo = rows.mark_text(dy=dy, fontSize=11, strokeWidth=4, xOffset=DODGE)
        layers.append(halo.encode(stroke=alt.StrokeValue(ink.ground), color=alt.ColorValue(ink.ground)))
        layers.append(rows.mark_text(dy=dy, fontSize=11, xOffset=DODGE))
    return layers


def pooled_over_loads(frame: pd.DataFrame) -> pd.DataFrame:
    """`queries.acceptance_per_position` over all loads, weighted by drafts: acceptance does not depend on the load."""
    weighted = frame.assign(accepted=frame["acceptance"] * frame["num_drafts"])
    sums = weighted.groupby(["arm", "category", "position"], sort=False, as_index=False)[
        ["accepted", "num_drafts"]
    ].sum()
    return sums.assign(acceptance=sums["accepted"] / sums["num_drafts"]).drop(columns="accepted")


def acceptance_panel(frame: pd.DataFrame, styles: Sequence[ArmStyle], positions: int) -> alt.LayerChart:
    """Draw one panel; `frame` has the pooled rows of one category, `positions` is the longest draft of the figure."""
    scale = alt.Scale(type="point", padding=0.35, domain=list(range(1, positions + 1)))
    base = alt.Chart(frame).encode(
        x=alt.X("position:O", title="Position in the draft", scale=scale),
        y=share_axis("acceptance", "Drafts accepted up to this position (%)"),
        color=colour(styles),
    )
    tooltip = tips(
        *("arm", "category", ("position:O", "Position"), ("acceptance:Q", "Accepted up to here", ".1%")),
        ("num_drafts:Q", "Drafts", ",.0f"),
    )
    return alt.LayerChart(
        layer=[base.mark_line(strokeWidth=2), points(base, styles, tooltip=tooltip)], height=PANEL_HEIGHT
    )


def throughput_panel(frame: pd.DataFrame, measure: Metric, setting: Setting, top: float) -> alt.LayerChart:
    """Draw a category; `frame` has its rows of `published_data.cells`; `top` is the figure's common upper end."""
    rows = frame.assign(
        figure=frame["value"].map(_short), mean=frame["value"].map(number), highest=frame["values"].map(max)
    )
    base = _base(with_load(rows.drop(columns="values")), setting)
    scale = alt.Scale(domain=[0, top], nice=False)
    bars = base.mark_bar(cornerRadiusTopLeft=2, cornerRadiusTopRight=2).encode(
        y=alt.Y("value:Q", title=measure.title, scale=scale, axis=alt.Axis(labelExpr=SHORT)),
        color=colour(setting.styles),
        tooltip=tips(
            *("arm", "category", _load(setting.axis), ("mean:N", f"Mean, {measure.shown_unit}"), "repeats"),
        ),
    )
    layers = [bars]
    if (frame["repeats"] > 1).any():
        repeats = _base(with_load(frame[[*_PLACE, "values"]]).explode("values").astype({"values": float}), setting)
        dots = with_written(
            repeats.mark_point(size=9, filled=True, opacity=0.9, color=INKS[setting.mode].text), "values"
        )
        layers.append(dots.encode(y=alt.Y("values:Q"), tooltip=[number_tooltip("values", "One repeat")]))
    if len(frame) <= _MOST_LABELLED_BARS:
        text = base.mark_text(dy=-7, fontSize=9, color=INKS[setting.mode].muted)
        layers.append(text.encode(y=alt.Y("highest:Q"), text=alt.Text("figure:N")))
    return alt.LayerChart(layer=layers, height=PANEL_HEIGHT)


def upper_end(frame: pd.DataFrame) -> float:
    """Return a common end of the y axes with room for the figures above the bars."""
    highest = frame["values"].map(lambda values: max(values, default=0.0)).max()
    return 1.0 if pd.isna(highest) or highest <= 0 else float(highest) * 1.12


def _base(frame: pd.DataFrame, setting: Setting) -> alt.Chart:
    order = [style.arm for style in setting.styles]
    x, offset = setting.axis.encoding(), alt.XOffset("arm:N", sort=order)
    return alt.Chart(frame).encode(x=x, xOffset=offset)


def _short(value: float) -> str:
    """Three digits in few letters where a bar is no wider: `0.850`, `5.80`, `58.1`, `112`, `1.23k`."""
    return f"{number(value / 1000)}k" if value >= 1000 else number(value)
