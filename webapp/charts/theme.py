"""One theme for every chart, light and dark, on the page and in exported files.

Colours are Okabe and Ito's, safe for colour-blind readers, a little brighter on dark ground. Grey is for arms without
speculation. A method of speculation has the same colour on every chart of every study, darker the more tokens it
drafts.
"""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import altair as alt
import pandas as pd

from lab.study import Study

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
#: Numbers as in the text of the pages, which has a space before the sign of per cent.
_NUMBERS = {"decimal": ".", "thousands": ",", "grouping": [3], "currency": ["$", ""], "percent": " %"}
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


#: How an arm drafts: the method, "none" without speculation, and the drafted tokens k, None if they vary.
Drafting = tuple[str, int | None]
WITHOUT = "none"
#: The place of each common method among the colours of arms; others take those that a chart has left.
_COLOUR_OF_METHOD = {"draft_model": 0, "eagle3": 1, "ngram": 2, "mtp": 3, "suffix": 4, "eagle": 5, "medusa": 6}
#: A method's own colour stands for the most common k; each token more or less changes its lightness by a step.
_USUAL_K, _STEP, _MOST_STEPS = 3, 0.045, 3


def arm_styles(
    arms: Iterable[str], baseline: str | None, mode: Mode, drafting: Mapping[str, Drafting] | None = None
) -> tuple[ArmStyle, ...]:
    """Return the style of each arm, in the order given.

    The colour follows from `drafting` where it is known. Arms that draft alike (heads of several authors), and those of
    which nothing is known, take colours that no other arm of the chart has, as long as there are any.
    """
    ink, known, names = INKS[mode], drafting or {}, list(arms)
    places = {arm: _COLOUR_OF_METHOD.get(known[arm][0]) for arm in names if arm in known and arm != baseline}
    free = [place for place in range(len(ink.arms)) if place not in places.values()] or list(range(len(ink.arms)))
    drawn: set[Drafting] = set()
    styles: list[ArmStyle] = []
    taken = plain = 0
    for arm in names:
        how = known.get(arm)
        if arm == baseline or (how is not None and how[0] == WITHOUT):
            styles.append(ArmStyle(arm, ink.baseline, *SHAPES[plain % len(SHAPES)]))
            plain += 1
            continue
        place, colour = places.get(arm), None
        if how is not None and place is not None and how not in drawn:
            colour = _shade(ink.arms[place], how[1], mode)
        else:
            place = free[taken % len(free)]
            taken += 1
        drawn |= set() if how is None else {how}
        mark = place + 1 + sum(style.shape == SHAPES[(place + 1) % len(SHAPES)][0] for style in styles)
        styles.append(ArmStyle(arm, colour or ink.arms[place], *SHAPES[mark % len(SHAPES)]))
    return tuple(styles)


def drafting_in(study: Study) -> dict[str, Drafting]:
    """Return how each arm of the study drafts, in its order."""
    drafts = {arm.name: arm.speculation for arm in study.arms}
    return {name: (how.method, how.num_speculative_tokens) if how else (WITHOUT, None) for name, how in drafts.items()}


def drafting_of(arms: Iterable[str], methods: Iterable[str], drafted_tokens: Iterable[float]) -> dict[str, Drafting]:
    """Return how each arm drafts, by columns of runs with an arm, a method and a k each, NaN where it has none."""
    rows = zip(arms, methods, drafted_tokens, strict=True)
    return {arm: (method, None if pd.isna(k) else int(k)) for arm, method, k in rows if not pd.isna(arm)}


def _shade(colour: str, k: int | None, mode: Mode) -> str:
    """Return the colour, darker on light ground and lighter on dark ground for more drafted tokens than usual."""
    steps = max(-_MOST_STEPS, min(_MOST_STEPS, (k or _USUAL_K) - _USUAL_K)) * (1 if mode == "dark" else -1)
    hue, lightness, saturation = colorsys.rgb_to_hls(*(int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)))
    parts = colorsys.hls_to_rgb(hue, lightness + steps * _STEP, saturation)
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def styles_drawn(rows: pd.DataFrame, styles: Sequence[ArmStyle]) -> tuple[ArmStyle, ...]:
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
        "locale": {"number": _NUMBERS},
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
