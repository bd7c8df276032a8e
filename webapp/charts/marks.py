"""Parts that charts have in common: colours and shapes of arms, points, whiskers, tiles, the losing side, tooltips."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

import altair as alt
import numpy as np
import pandas as pd

from webapp.charts.theme import INKS, ArmStyle, Mode, colour_scale, shape_scale

DrawnChart = TypeVar("DrawnChart", alt.Chart, alt.LayerChart)
_WRITTEN = "_written"
#: Okabe and Ito's colours, told apart by every reader: worse, neither, better; the middle is a little off the page.
_ENDS: dict[Mode, tuple[str, str, str]] = {
    "light": ("#d55e00", "#f2f4f7", "#0072b2"),
    "dark": ("#e8743b", "#1e2732", "#4ba3e3"),
}
#: The ink of text on tiles: on every colour, pure black or pure white has a contrast of 4.5.
_DARK_INK, _WHITE_INK = "#000000", "#ffffff"
#: Pixels between the marks of two series at one x, so that whiskers stand side by side.
_DODGE_PX, _MOST_DODGED_PX = 9, 40
#: The `xOffset` of a mark of `dodged` rows.
DODGE = alt.ExprRef("datum.dodge_px || 0")
#: Fields that several tooltips have, with title and format.
_TIPS: dict[str, tuple[str, ...]] = {
    "arm": ("arm:N", "Arm"),
    "basis": ("basis:N", "Interval from"),
    "category": ("category:N", "Category"),
    "concurrency": ("concurrency:Q", "Concurrency (requests in flight)"),
    "high": ("high:Q", "95 % to", ".1f"),
    "low": ("low:Q", "95 % from", ".1f"),
    "pattern": ("pattern:N", "Load"),
    "prompts": ("prompts:Q", "Prompts", ",.0f"),
    "repeats": ("repeats:Q", "Repeats"),
    "requests": ("requests:Q", "Requests", ",.0f"),
    "rounds": ("rounds:Q", "Rounds", ",.0f"),
    "series": ("series:N", "Series"),
    "verdict": ("verdict:N", "Verdict"),
    "workload": ("workload:N", "Workload"),
    "written": ("written:N", "Ratio to the baseline [95 %]"),
}


def colour(styles: Sequence[ArmStyle], field: str = "arm") -> alt.Color:
    return alt.Color(f"{field}:N", scale=colour_scale(styles), legend=None)


def shape(styles: Sequence[ArmStyle], field: str = "arm") -> alt.Shape:
    return alt.Shape(f"{field}:N", scale=shape_scale(styles), legend=None)


def points(base: alt.Chart, styles: Sequence[ArmStyle], field: str = "arm", **channels: Any) -> alt.Chart:
    """Draw filled points in the arms' shapes, side by side if the rows are `dodged`."""
    dots = base.mark_point(filled=True, size=75, opacity=1, xOffset=DODGE)
    drawn: alt.Chart = dots.encode(shape=shape(styles, field), **channels)
    return drawn


def points_by_verdict(base: alt.Chart, styles: Sequence[ArmStyle], **channels: Any) -> alt.Chart:
    """Draw points in the arms' shapes, hollow where the row's `verdict` is inconclusive."""
    dots = base.mark_point(size=75, opacity=1, strokeWidth=2, xOffset=DODGE)
    drawn: alt.Chart = dots.encode(
        shape=shape(styles),
        fill=alt.Fill("arm:N", scale=colour_scale(styles), legend=None),
        fillOpacity=alt.FillOpacityValue(1, condition={"test": "datum.verdict === 'inconclusive'", "value": 0}),
        **channels,
    )
    return drawn


def whiskers(base: alt.Chart, low: str = "low", high: str = "high", **style: Any) -> alt.Chart:
    """Draw upright rules between two columns; `style` is the mark's."""
    drawn: alt.Chart = base.mark_rule(strokeWidth=1.5, **style).encode(y=alt.Y(f"{low}:Q"), y2=alt.Y2(f"{high}:Q"))
    return drawn


def dodged(rows: pd.DataFrame, column: str, styles: Sequence[ArmStyle]) -> pd.DataFrame:
    """Return the rows with `dodge_px`, the horizontal offset of their series, which `column` names."""
    drawn = [style.arm for style in styles]
    width_px = min(_DODGE_PX * (len(drawn) - 1), _MOST_DODGED_PX)
    offsets = np.linspace(-width_px / 2, width_px / 2, len(drawn))
    return rows.assign(dodge_px=rows[column].map(dict(zip(drawn, offsets, strict=True))))


def reference(base: alt.Chart, mode: Mode) -> alt.Chart:
    """Draw the dashed rule of the baseline at the heights in the column `one`."""
    rule = base.mark_rule(color=INKS[mode].baseline, strokeWidth=1.5, strokeDash=[5, 3])
    drawn: alt.Chart = rule.encode(y=alt.Y("one:Q"))
    return drawn


def losing_side(
    domain: tuple[float, float], mode: Mode, *, loss_is_low: bool = True, baseline: float = 1.0
) -> list[alt.Chart]:
    """Shade the side of the baseline that loses, and draw its rule."""
    sides = alt.Chart(pd.DataFrame({"one": [baseline], "low": [domain[0]], "high": [domain[1]]}))
    losing = sides.mark_rect(color=INKS[mode].loss, opacity=0.09).encode(
        y=alt.Y("one:Q"), y2=alt.Y2("low:Q" if loss_is_low else "high:Q")
    )
    return [losing, reference(sides, mode)]


def tiles(base: alt.Chart, mode: Mode, **channels: Any) -> alt.Chart:
    drawn: alt.Chart = base.mark_rect(stroke=INKS[mode].ground, strokeWidth=2, cornerRadius=3).encode(**channels)
    return drawn


def tile_text(base: alt.Chart, column: str, dy: int, size: int, **style: Any) -> alt.Chart:
    """Write a column on tiles, white where the column `is_dark` says so."""
    ink = alt.ColorValue(_DARK_INK, condition={"test": "datum.is_dark", "value": _WHITE_INK})
    drawn: alt.Chart = base.mark_text(dy=dy, fontSize=size, **style).encode(text=alt.Text(f"{column}:N"), color=ink)
    return drawn


def gain_colours(mode: Mode, reach: float, *, higher: bool = True) -> alt.Scale:
    """Colours of log2 of a ratio, up to `reach` on either side of 1×; `higher`: above 1× is better."""
    ends = _ENDS[mode] if higher else _ENDS[mode][::-1]
    return alt.Scale(domain=[-reach, 0, reach], range=list(ends), interpolate="rgb")


def vain_to_best(mode: Mode) -> tuple[str, str]:
    """Return the colours of the least and the greatest value where none is a loss."""
    return _ENDS[mode][1:]


def is_dark(mode: Mode, share: float, *, higher: bool = True, opacity: float = 1.0) -> bool:
    """Return whether white text has more contrast than dark text on a tile; `share` of the way to an end, -1 to 1."""
    mixed, ground = tile_colour(mode, share, higher=higher), channels(INKS[mode].ground)
    tile = [opacity * above + (1 - opacity) * below for above, below in zip(mixed, ground, strict=True)]
    white, dark = (contrast(channels(ink), tile) for ink in (_WHITE_INK, _DARK_INK))
    return white > dark


def tile_colour(mode: Mode, share: float, *, higher: bool = True) -> list[float]:
    """Return red, green and blue (up to 255) of `gain_colours`, at this share of the way to an end."""
    worse, middle, better = _ENDS[mode]
    end = better if (share > 0) == higher else worse
    both = zip(channels(middle), channels(end), strict=True)
    return [left + (right - left) * abs(share) for left, right in both]


def contrast(ink: Sequence[float], ground: Sequence[float]) -> float:
    """Return the contrast of two colours (red, green, blue up to 255) by WCAG: 4.5 is enough for small text."""
    darker, brighter = sorted((_luminance(ink), _luminance(ground)))
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(channels: Sequence[float]) -> float:
    """Return the relative luminance by WCAG."""
    parts = [channel / 255 for channel in channels]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def channels(colour: str) -> list[int]:
    """Return red, green and blue of `#rrggbb`."""
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def tips(*fields: str | tuple[str, ...] | alt.Tooltip) -> list[alt.Tooltip]:
    """Return the lines of a tooltip: shared fields by their name, others as `("k:Q", title)` or with a format."""
    return [field if isinstance(field, alt.Tooltip) else _tip(field) for field in fields]


def _tip(field: str | tuple[str, ...]) -> alt.Tooltip:
    shorthand, title, *written = _TIPS[field] if isinstance(field, str) else field
    return alt.Tooltip(shorthand, title=title, format=written[0] if written else alt.Undefined)


def number_tooltip(column: str, title: str) -> alt.Tooltip:
    """Return the tooltip of a number formatted like `lab.metrics.number_format.number`, after `with_written`."""
    return alt.Tooltip(f"{column}{_WRITTEN}:N", title=title)


def with_written(chart: DrawnChart, *columns: str) -> DrawnChart:
    """Add these columns' formatted numbers for tooltips, computed by the browser, as d3 has no such format."""
    values = {column: f"datum[{json.dumps(column)}]" for column in columns}
    texts = {
        f"{column}{_WRITTEN}": f"isValid({value}) ? {value} == 0 ? '0' : "
        f"format({value}, abs({value}) < 1000 ? ',.3r' : ',.0f') : '–'"
        for column, value in values.items()
    }
    return chart.transform_calculate(**texts)
