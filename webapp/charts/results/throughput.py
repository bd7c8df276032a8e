"""A metric by load, a bar per arm with the range of its repeats."""

from __future__ import annotations

import altair as alt
import pandas as pd

from lab.metrics.definition import Metric
from webapp.charts.axes import PANEL_HEIGHT, SHORT, LoadAxis, Setting, with_load
from webapp.charts.theme import INKS, Mode, colour_scale

#: More bars than this on one panel leave no room for a figure on each.
_MOST_LABELLED_BARS = 16


def panel(frame: pd.DataFrame, measure: Metric, setting: Setting, top: float) -> alt.LayerChart:
    """One panel; `frame` has the rows of `queries.speedup` for one category, `top` is the figure's common upper end."""
    base = _base(with_load(frame).assign(figure=frame["value"].map(_short)), setting)
    scale = alt.Scale(domain=[0, top], nice=False)
    bars = base.mark_bar(cornerRadiusTopLeft=2, cornerRadiusTopRight=2).encode(
        y=alt.Y("value:Q", title=measure.title, scale=scale, axis=alt.Axis(labelExpr=SHORT)),
        color=alt.Color("arm:N", scale=colour_scale(setting.styles), legend=None),
        tooltip=_tooltip(measure, setting.axis),
    )
    layers = [bars]
    if (frame["repeats"] > 1).any():
        layers.append(
            base.mark_rule(strokeWidth=1.5, color=INKS[setting.mode].text).encode(y="value_min:Q", y2="value_max:Q")
        )
    if len(frame) <= _MOST_LABELLED_BARS:
        layers.append(_figures(base, setting.mode))
    return alt.LayerChart(layer=layers).properties(height=PANEL_HEIGHT)


def upper_end(frame: pd.DataFrame) -> float:
    """A common end of the y axes with room for the figures above the bars."""
    highest = frame["value_max"].max()
    return 1.0 if pd.isna(highest) or highest <= 0 else float(highest) * 1.12


def _base(frame: pd.DataFrame, setting: Setting) -> alt.Chart:
    order = [style.arm for style in setting.styles]
    x, offset = setting.axis.encoding(), alt.XOffset("arm:N", sort=order)
    return alt.Chart(frame).encode(x=x, xOffset=offset)


def _figures(base: alt.Chart, mode: Mode) -> alt.Chart:
    text: alt.Chart = base.mark_text(dy=-7, fontSize=10, color=INKS[mode].muted)
    return text.encode(y="value_max:Q", text="figure:N")


def _short(value: float) -> str:
    """At most four letters where a bar is no wider: `0.85`, `5.8`, `58`, `112`, `1.2k`."""
    if value >= 1000:
        return f"{value / 1000:.3g}k"
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def _tooltip(measure: Metric, axis: LoadAxis) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("arm:N", title="Arm"),
        alt.Tooltip("category:N", title="Category"),
        alt.Tooltip(f"{axis.column}:N", title=axis.title),
        alt.Tooltip("value:Q", title=f"Mean, {measure.shown_unit}", format=",.4~g"),
        alt.Tooltip("value_min:Q", title="Lowest repeat", format=",.4~g"),
        alt.Tooltip("value_max:Q", title="Highest repeat", format=",.4~g"),
        alt.Tooltip("repeats:Q", title="Repeats"),
    ]
