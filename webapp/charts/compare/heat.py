"""Ratios to the baseline as a map of rows by columns: colour on log2(ratio), 1× in the middle, figures in the cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import altair as alt
import pandas as pd

from webapp.charts.theme import INKS, Mode

MARKS = {"faster": "▲", "slower": "▼", "no difference": "=", "not enough data": "?"}
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


@dataclass(frozen=True)
class Side:
    """One side of the map: its title, and its values in order."""

    title: str
    order: tuple[str, ...]


def panel(frame: pd.DataFrame, rows: Side, columns: Side, reach: float, mode: Mode, *, higher: bool) -> alt.LayerChart:
    """One candidate's cells (`pages.compare.tables.heat`). `reach`: of all panels; `higher`: above 1× is better."""
    known = frame[frame["ratio"].notna()]
    shown = known.assign(
        log2=known["ratio"].map(lambda ratio: max(-reach, min(reach, math.log2(ratio)))),
        figure=[_figure(ratio, verdict) for ratio, verdict in zip(known["ratio"], known["verdict"], strict=True)],
        interval=[_interval(low, high) for low, high in zip(known["low"], known["high"], strict=True)],
        words=known["verdict"].map(lambda word: word or "none: a mean"),
    )
    shown = shown.assign(is_dark=[_is_dark(mode, log2 / reach, higher=higher) for log2 in shown["log2"]])
    base = alt.Chart(shown).encode(
        x=alt.X("column:N", sort=list(columns.order), title=None, axis=_axis("top", _column_width(columns))),
        y=alt.Y("row:N", sort=list(rows.order), title=None, axis=_axis("left", _longest(rows))),
    )
    ends = _ENDS[mode] if higher else _ENDS[mode][::-1]
    scale = alt.Scale(domain=[-reach, 0, reach], range=list(ends), interpolate="rgb")
    cells = base.mark_rect(stroke=INKS[mode].ground, strokeWidth=2, cornerRadius=3).encode(
        color=alt.Color("log2:Q", scale=scale, legend=None),
        opacity=alt.OpacityValue(1, condition={"test": "datum.is_mean", "value": 0.78}),
        tooltip=_tooltip(rows.title, columns.title),
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
    return alt.LayerChart(layer=[cells, *lines]).properties(height=_HEAD_HEIGHT + _ROW_HEIGHT * len(rows.order))


def reach(frame: pd.DataFrame) -> float:
    """How far (in log2) the colours of all panels go to either side of 1×."""
    ratios = frame.loc[frame["ratio"].gt(0), "ratio"]
    return max([_LEAST_REACH, *(abs(math.log2(ratio)) for ratio in ratios)])


def width(rows: Side, columns: Side) -> int:
    """The least width of a panel in pixels, so that names and figures do not overlap."""
    return _longest(rows) + _column_width(columns) * len(columns.order)


def _column_width(columns: Side) -> int:
    return max(_FIGURES_WIDTH, _longest(columns))


def _longest(side: Side) -> int:
    """Pixels of its longest name."""
    return min(_MOST_WIDTH, 8 + round(_LETTER_WIDTH * max(map(len, side.order), default=0)))


def _figure(ratio: float, verdict: str | None) -> str:
    mark = MARKS.get(verdict or "", "")
    return f"{ratio:.2f}× {mark}".rstrip()


def _interval(low: float, high: float) -> str:
    return "" if pd.isna(low) or pd.isna(high) else f"{low:.2f} – {high:.2f}"


def _axis(orient: Literal["top", "left"], limit: int) -> alt.Axis:
    return alt.Axis(orient=orient, labelAngle=0, labelLimit=limit, grid=False, domain=False, ticks=False)


def _is_dark(mode: Mode, place: float, *, higher: bool) -> bool:
    """Whether white text is easier to read than black on the cell's colour; `place` is from -1 to 1."""
    worse, middle, better = _ENDS[mode]
    end = better if (place > 0) == higher else worse
    mixed = [_mixed(middle, end, at, abs(place)) for at in (1, 3, 5)]
    luminance = sum(weight * channel for weight, channel in zip((0.299, 0.587, 0.114), mixed, strict=True))
    return luminance < _HALF_BRIGHT


def _mixed(one: str, other: str, at: int, share: float) -> float:
    left, right = int(one[at : at + 2], 16), int(other[at : at + 2], 16)
    return left + (right - left) * share


def _tooltip(rows: str, columns: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("arm:N", title="Arm"),
        alt.Tooltip("row:N", title=rows),
        alt.Tooltip("column:N", title=columns),
        alt.Tooltip("ratio:Q", title="Ratio to the baseline (×)", format=".3f"),
        alt.Tooltip("low:Q", title="95 % from (×)", format=".3f"),
        alt.Tooltip("high:Q", title="95 % to (×)", format=".3f"),
        alt.Tooltip("words:N", title="Verdict"),
        alt.Tooltip("basis:N", title="Interval from"),
    ]
