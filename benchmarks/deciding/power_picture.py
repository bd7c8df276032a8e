"""The picture of part power: effects called and false calls of each rule, as bars side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import altair as alt
import pandas as pd
import vl_convert

from webapp.charts.theme import INKS, themed
from webapp.charts.vega_spec import plain
from webapp.shared.downloads import VEGA_LITE

_INK = INKS["light"]
_COLOURS = (_INK.arms[0], _INK.arms[5], _INK.baseline, _INK.arms[1], _INK.arms[4], _INK.arms[3])
_WIDTH, _BAR, _SCALE, _ALLOWED = 330, 13, 2.0, 0.05


@dataclass(frozen=True)
class Bar:
    """The result of one rule in one study."""

    study: str
    rule: str
    called: float
    false_calls: float


def drawn(bars: Sequence[Bar], rules: Sequence[str], tables: int, ending: str) -> bytes:
    """Return the picture as a file: SVG if `ending` is .svg, else PNG."""
    rows = pd.DataFrame([asdict(bar) for bar in bars])
    panels = [
        _panel(rows, "called", "True effects called", rules, most=1.0, names=True),
        _panel(
            rows, "false_calls", "Calls that are false (line: the 5 % that are allowed)", rules, most=0.5, names=False
        ),
    ]
    title = alt.TitleParams(
        "What each rule makes of the same tables",
        subtitle=f"Half of the cells have the effect; {tables} simulated tables of each study",
        subtitleColor=_INK.muted,
        fontSize=16,
        offset=14,
    )
    chart = alt.hconcat(*panels, spacing=24, title=title, padding=16)
    text = json.dumps(plain(themed(chart, "light", ground=True)))
    if ending == ".svg":
        return str(vl_convert.vegalite_to_svg(text, vl_version=VEGA_LITE)).encode()
    return bytes(vl_convert.vegalite_to_png(text, vl_version=VEGA_LITE, scale=_SCALE))


def _panel(rows: pd.DataFrame, column: str, title: str, rules: Sequence[str], *, most: float, names: bool) -> Any:
    studies = list(dict.fromkeys(rows["study"]))
    axis = alt.Axis(labelExpr="split(datum.label, ', ')", domain=False, ticks=False) if names else None
    base = alt.Chart(rows, width=_WIDTH, height=len(studies) * len(rules) * _BAR, title=title).encode(
        y=alt.Y("study:N", sort=studies, title=None, axis=axis, scale=alt.Scale(paddingInner=0.16)),
        yOffset=alt.YOffset("rule:N", sort=list(rules)),
    )
    colour = alt.Color(
        "rule:N",
        scale=alt.Scale(domain=list(rules), range=list(_COLOURS)),
        legend=alt.Legend(title=None, columns=3, orient="bottom"),
    )
    across = alt.X(f"{column}:Q", title=None, axis=alt.Axis(format="%", grid=True), scale=alt.Scale(domain=[0, most]))
    limit = alt.Chart(pd.DataFrame({"limit": [_ALLOWED]}))
    line = [limit.mark_rule(strokeDash=[4, 3], color=_INK.text).encode(x="limit:Q")] * (column == "false_calls")
    beside = _ALLOWED if line else 0.0  # figures stand to the right of the line
    figures = base.transform_calculate(place=f"max(datum.{column}, {beside})").encode(
        x="place:Q", text=alt.Text(f"{column}:Q", format=".0%")
    )
    bars = base.mark_bar(height={"band": 0.86}).encode(x=across, color=colour)
    return alt.layer(bars, *line, figures.mark_text(align="left", dx=4, dy=_BAR / 4, fontSize=10, color=_INK.muted))
