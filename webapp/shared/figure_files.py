"""A figure as a picture that can leave the page: title, legend, panels, source, date and link in one file. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from webapp.charts.panels import Figure
from webapp.charts.theme import INKS, ArmStyle, Mode, colour_scale, fill_scale, shape_scale, themed
from webapp.charts.vega_spec import plain
from webapp.shared.about import About

_MOST_COLUMNS = 3
_PANEL_WIDTH, _WIDE_PANEL_WIDTH = 380, 760
#: Of one letter of a legend, about.
_LETTER_WIDTH, _MARK_WIDTH, _LINE_HEIGHT = 7.2, 34, 22
_PNG_SCALE = 2.0
VEGA_LITE = "6.4"


def svg(figure: Figure, about: About, mode: Mode) -> bytes:
    text: str = vl_convert.vegalite_to_svg(_text(figure, about, mode), vl_version=VEGA_LITE)
    return text.encode()


def png(figure: Figure, about: About, mode: Mode) -> bytes:
    return bytes(vl_convert.vegalite_to_png(_text(figure, about, mode), vl_version=VEGA_LITE, scale=_PNG_SCALE))


def whole(figure: Figure, about: About, mode: Mode) -> alt.VConcatChart:
    """The figure with all that stands around it on its page."""
    width = _WIDE_PANEL_WIDTH if len(figure.panels) == 1 else max(_PANEL_WIDTH, figure.least_width)
    panels = [_titled(_sized(chart, width), title) for title, chart in figure.panels]
    grid = alt.concat(*panels, columns=_MOST_COLUMNS)
    across = width * min(len(panels), _MOST_COLUMNS)
    parts = [legend(figure.styles, mode, across), grid] if figure.styles else [grid]
    return alt.vconcat(*parts, title=_title(about, mode), padding=16)


def legend(styles: Sequence[ArmStyle], mode: Mode, width: float) -> alt.LayerChart:
    """The arms with their colour and mark, in as many lines as `width` asks for."""
    rows: list[dict[str, Any]] = []
    right, line = 0.0, 0
    for style in styles:
        needed = _MARK_WIDTH + _LETTER_WIDTH * len(style.arm)
        if rows and right + needed > width:
            right, line = 0.0, line + 1
        rows.append({"arm": style.arm, "x": right + 8, "line": line * _LINE_HEIGHT + 10})
        right += needed
    place: dict[str, Any] = {"scale": None, "axis": None}
    base = alt.Chart(pd.DataFrame(rows), width=width, height=(line + 1) * _LINE_HEIGHT).encode(
        x=alt.X("x:Q", **place), y=alt.Y("line:Q", **place)
    )
    marks = base.mark_point(size=80, opacity=1).encode(
        stroke=alt.Stroke("arm:N", scale=colour_scale(styles), legend=None),
        fill=alt.Fill("arm:N", scale=fill_scale(styles, mode), legend=None),
        shape=alt.Shape("arm:N", scale=shape_scale(styles), legend=None),
    )
    words = base.mark_text(align="left", dx=10, fontSize=12, color=INKS[mode].text).encode(text="arm:N")
    return alt.LayerChart(layer=[marks, words])


def _text(figure: Figure, about: About, mode: Mode) -> str:
    return json.dumps(plain(themed(whole(figure, about, mode), mode, ground=True)))


def _title(about: About, mode: Mode) -> alt.TitleParams:
    muted = INKS[mode].muted
    return alt.TitleParams(about.title, subtitle=list(about.lines), subtitleColor=muted, fontSize=16, offset=14)


def _titled(chart: Any, title: str) -> Any:
    return chart.properties(title=title) if title else chart


def _sized(chart: Any, width: int) -> Any:
    return chart if isinstance(chart, (alt.HConcatChart, alt.VConcatChart)) else chart.properties(width=width)
