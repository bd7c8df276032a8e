"""One theme for every chart, light and dark, on the page and in exported files.

Colours are Okabe and Ito's, safe for colour-blind readers, a little brighter on dark ground. Grey is the
baseline's, and an arm has the same colour and mark on every chart of a study.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import altair as alt
import pandas as pd

Mode = Literal["light", "dark"]
AnyChart = TypeVar(
    "AnyChart", alt.Chart, alt.LayerChart, alt.HConcatChart, alt.VConcatChart, alt.Chart | alt.LayerChart
)

FONT = "'Source Sans', 'Source Sans 3', 'Liberation Sans', sans-serif"


@dataclass(frozen=True)
class Ink:
    """The colours of one mode."""

    text: str
    muted: str
    grid: str
    ground: str
    baseline: str
    loss: str  # behind everything slower than the baseline
    arms: tuple[str, ...]


INKS: dict[Mode, Ink] = {
    "light": Ink(
        text="#17202b",
        muted="#5b6775",
        grid="#e3e8ee",
        ground="#ffffff",
        baseline="#7b8794",
        loss="#d55e00",
        arms=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#56b4e9", "#6a3d9a"),
    ),
    "dark": Ink(
        text="#e6edf3",
        muted="#9aa7b5",
        grid="#28323e",
        ground="#0f141a",
        baseline="#8d99a6",
        loss="#e8743b",
        arms=("#4ba3e3", "#f08a4b", "#2fc39a", "#e29bc4", "#e6b93d", "#9ad4f5", "#b692e0"),
    ),
}
#: Vega's marks, and the same marks as letters for a legend in text.
SHAPES = (
    ("circle", "●"),
    ("square", "■"),
    ("triangle-up", "▲"),
    ("diamond", "◆"),
    ("triangle-down", "▼"),
    ("cross", "✚"),
)


@dataclass(frozen=True)
class ArmStyle:
    """An arm's style in charts. `hollow`: not measured here; `note` follows its name in a page's legend."""

    arm: str
    colour: str
    shape: str
    letter: str
    hollow: bool = False
    note: str = ""


def arm_styles(arms: Sequence[str], baseline: str | None, mode: Mode) -> tuple[ArmStyle, ...]:
    """Return the style of each arm, in the order given. Colours and marks repeat with different periods."""
    ink, styles, index = INKS[mode], [], 0
    for arm in arms:
        if arm == baseline:
            styles.append(ArmStyle(arm, ink.baseline, *SHAPES[0]))
            continue
        styles.append(ArmStyle(arm, ink.arms[index % len(ink.arms)], *SHAPES[(index + 1) % len(SHAPES)]))
        index += 1
    return tuple(styles)


def styles_drawn(rows: pd.DataFrame, styles: Sequence[ArmStyle]) -> tuple[ArmStyle, ...]:
    """Return the styles of the arms that have rows."""
    arms = set(rows["arm"])
    return tuple(style for style in styles if style.arm in arms)


def colour_scale(styles: Sequence[ArmStyle]) -> alt.Scale:
    return alt.Scale(domain=[style.arm for style in styles], range=[style.colour for style in styles])


def shape_scale(styles: Sequence[ArmStyle]) -> alt.Scale:
    return alt.Scale(domain=[style.arm for style in styles], range=[style.shape for style in styles])


def fill_scale(styles: Sequence[ArmStyle], mode: Mode) -> alt.Scale:
    """Return the fill of marks: the page's colour for hollow ones."""
    fills = [INKS[mode].ground if style.hollow else style.colour for style in styles]
    return alt.Scale(domain=[style.arm for style in styles], range=fills)


def configuration(mode: Mode) -> dict[str, Any]:
    """Vega-Lite's `config` of a mode."""
    ink = INKS[mode]
    return {
        "font": FONT,
        "background": "transparent",
        "padding": {"left": 4, "right": 8, "top": 4, "bottom": 4},
        "view": {"stroke": None},
        "axis": {
            "labelColor": ink.muted,
            "titleColor": ink.text,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
            "titlePadding": 8,
            "labelPadding": 5,
            "labelLimit": 160,
            "gridColor": ink.grid,
            "domainColor": ink.grid,
            "tickColor": ink.grid,
        },
        "axisX": {"grid": False, "labelAngle": 0},
        "axisY": {"domain": False, "ticks": False, "tickCount": 6},
        "legend": {
            "labelColor": ink.text,
            "titleColor": ink.text,
            "labelFontSize": 12,
            "titleFontSize": 12,
            "labelLimit": 260,
            "orient": "bottom",
            "symbolSize": 90,
        },
        "title": {"color": ink.text, "fontSize": 13, "fontWeight": 600, "anchor": "start", "offset": 8},
        "text": {"font": FONT, "color": ink.text},
        "rule": {"aria": False},  # whiskers and lines of reference: points say to a screen reader what they show
        "range": {"category": list(ink.arms)},
    }


def themed(chart: AnyChart, mode: Mode, *, ground: bool = False) -> AnyChart:
    """Draw the chart in the theme of a mode; `ground` paints the page's colour behind it, for files."""
    config = configuration(mode)
    if ground:
        config["background"] = INKS[mode].ground
    copy = chart.copy(deep=False)
    copy.config = config
    return copy
