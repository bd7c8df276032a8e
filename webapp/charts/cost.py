"""Cost by load, a line an arm, and the share of the baseline's cost that an arm saves."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import altair as alt
import pandas as pd

from lab.metrics.number_format import is_saving_too_wide, number, percent
from webapp.charts.axes import PANEL_HEIGHT, LoadAxis, Setting, with_load, without_wide
from webapp.charts.marks import DODGE, colour, dodged, losing_side, points_by_verdict, shape, tips, whiskers
from webapp.charts.theme import colour_scale

#: Steps of a logarithmic axis that read well.
_STEPS = (1, 1.5, 2, 3, 4, 5, 7)
_MOST_TICKS = 7
#: A saving of less than this share above zero still leaves room to see the zero line.
_LEAST_REACH = 0.05
#: Where intervals are cut off: a few that reach further would press all others together.
_LOWEST_END = -1.0


def panel(frame: pd.DataFrame, title: str, setting: Setting, domain: tuple[float, float]) -> alt.LayerChart:
    """Draw one panel of rows with `cost`, `arm`, `meets_slo` and the loads; hollow where the SLO is not met."""
    base = _base(frame, setting)
    y = alt.Y(
        "cost:Q",
        title=title,
        scale=alt.Scale(type="log", domain=list(domain), nice=False),
        axis=alt.Axis(values=ticks(domain), format="~g", labelOverlap=False),
    )
    colours = colour_scale(setting.styles)
    marks = base.mark_point(size=75, opacity=1, strokeWidth=2, xOffset=DODGE).encode(
        y=y,
        shape=shape(setting.styles),
        stroke=alt.Stroke("arm:N", scale=colours, legend=None),
        fill=alt.Fill("arm:N", scale=colours, legend=None),
        fillOpacity=alt.FillOpacityValue(1, condition={"test": "datum.meets_slo === 'no'", "value": 0}),
        tooltip=tips(
            *_where(setting.axis),
            ("amount:N", title),
            ("saved:N", "Saving against the baseline [95 %]"),
            ("meets_slo:N", "Meets the SLO"),
            ("price_source:N", "Price from"),
        ),
    )
    return alt.LayerChart(layer=[_lines(base, setting, y), marks], height=PANEL_HEIGHT)


def saving_panel(frame: pd.DataFrame, setting: Setting, domain: tuple[float, float]) -> alt.LayerChart:
    """Draw one panel of rows with `saving`, `saving_low`, `saving_high` (shares)."""
    base, arms = _base(frame, setting), colour(setting.styles)
    y = alt.Y(
        "saving:Q",
        title="Saving against the baseline (%)",
        scale=alt.Scale(domain=list(domain), nice=False),
        axis=alt.Axis(format=".0%", tickCount=6),
    )
    layers: list[Any] = [*losing_side(domain, setting.mode, baseline=0.0), _lines(base, setting, y)]
    if without_wide_savings(frame)["saving_low"].notna().any():
        known = base.transform_filter("isValid(datum.saving_low)")
        ends = whiskers(known, "saving_low", "saving_high", opacity=0.75, clip=True, xOffset=DODGE)
        layers.append(ends.encode(color=arms))
    tooltip = tips(*_where(setting.axis), ("saved:N", "Saving [95 %]"))
    marks = points_by_verdict(base, setting.styles, y=y, color=arms, tooltip=tooltip)
    return alt.LayerChart(layer=[*layers, marks], height=PANEL_HEIGHT)


def domain(frame: pd.DataFrame) -> tuple[float, float]:
    """Return the common y range of costs, with some room."""
    return float(frame["cost"].min()) / 1.12, float(frame["cost"].max()) * 1.12


def saving_domain(frame: pd.DataFrame) -> tuple[float, float]:
    """Return the common y range of savings: every saving, its interval down to twice the cost, and zero well inside."""
    ends = without_wide_savings(frame)[["saving", "saving_low", "saving_high"]].astype(float)
    ends["saving_low"] = ends["saving_low"].clip(lower=_LOWEST_END)
    low, high = min(0.0, float(ends.min().min())), max(0.0, float(ends.max().max()))
    room = max(_LEAST_REACH, 0.08 * (high - low))
    return low - room, high + room


def without_wide_savings(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without the ends of shares that are shown as unknown."""
    return without_wide(frame, ("saving", "saving_low", "saving_high"), partial(is_saving_too_wide, whole=1.0))


def ticks(domain: tuple[float, float]) -> list[float]:
    """Return a few round figures within the range, as many as leave room for each other."""
    powers = range(math.floor(math.log10(domain[0])), math.ceil(math.log10(domain[1])) + 1)
    for steps in (_STEPS, (1, 2, 3, 5), (1, 3), (1,)):
        candidates = [step * 10.0**power for power in powers for step in steps]
        within = [float(f"{tick:.6g}") for tick in candidates if domain[0] <= tick <= domain[1]]
        if len(within) <= _MOST_TICKS:
            break
    return within


def _base(frame: pd.DataFrame, setting: Setting) -> alt.Chart:
    shown = dodged(with_load(frame), "arm", setting.styles)
    if "cost" in shown:
        shown = shown.assign(amount=shown["cost"].map(number))
    if "saving" in shown:
        shares = (100 * shown[name].astype(float) for name in ("saving", "saving_low", "saving_high"))
        shown = without_wide_savings(shown.assign(saved=list(map(percent, *shares))))
    return alt.Chart(shown[[name for name in _DRAWN if name in shown]]).encode(x=setting.axis.encoding(padding=0.35))


def _lines(base: alt.Chart, setting: Setting, y: alt.Y) -> alt.Chart:
    made: alt.Chart = base.mark_line(strokeWidth=2, xOffset=DODGE).encode(y=y, color=colour(setting.styles))
    return made


def _where(axis: LoadAxis) -> tuple[str | tuple[str, str], ...]:
    return "arm", ("category:N", "Workload"), (f"{axis.column}:N", axis.title)


#: The columns that the charts need.
_DRAWN = (
    "verdict",
    *("arm", "category", "pattern", "load", "cost", "amount", "saved", "saving", "saving_low", "saving_high"),
    *("meets_slo", "price_source", "dodge_px"),
)
