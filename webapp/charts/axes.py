"""Settings that the panels of a figure share: loads on the x axis, order of arms, y range."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from lab.metrics.number_format import is_too_wide, ratio
from webapp.charts.theme import ArmStyle, Mode

PANEL_HEIGHT = 280
#: Labels of an axis of any numbers: 0, 0.3, 250, 12k. SI's own letters would make 0.3 of them 300m, and 0 of 5k 0k.
SHORT = "abs(datum.value) < 1000 ? format(datum.value, '.4~g') : format(datum.value, '.4~s')"
#: Columns that are constant within a panel -> their words in its title.
_FACETS: dict[str, Callable[[Any], str]] = {
    "dataset": str,
    "category": lambda category: "all categories" if category == "all" else str(category),
    "requested_output_tokens": lambda tokens: f"{'any number of' if pd.isna(tokens) else int(tokens)} output tokens",
}


#: Ratios a reader recognises; those within the axis become its labels. Where all is close to 1×, steps of 2 %.
_TICKS = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.33,
    0.5,
    0.6,
    0.7,
    0.8,
    0.9,
    0.95,
    1,
    1.05,
    1.1,
    1.25,
    1.5,
    1.75,
    2,
    2.5,
    3,
    4,
    5,
    7,
    10,
    20,
)
_FINE_TICKS = tuple(percent / 100 for percent in range(80, 126, 2))
_FINE_LOG2 = 0.4
_MOST_TICKS = 9
#: Smallest height of the worse side, as a share of the better side's, so that 1× is well inside the panel.
_LEAST_SHARE = 0.45
#: An interval may reach so far (in log2) beyond all ratios before the axis ends.
_MOST_BEYOND = 0.8


@dataclass(frozen=True)
class LoadAxis:
    """The x axis: concurrency if that distinguishes the loads, else the names of the loads."""

    column: str
    title: str
    order: tuple[str, ...]

    def encoding(self, *, padding: float | None = None) -> alt.X:
        scale = alt.Scale() if padding is None else alt.Scale(type="point", padding=padding)
        axis = alt.Axis(labelOverlap="greedy", labelAngle=0 if self.column == "load" else -30)
        return alt.X(f"{self.column}:O", sort=list(self.order), title=self.title, scale=scale, axis=axis)


@dataclass(frozen=True)
class Setting:
    """Properties that the panels of a figure share, apart from their y range."""

    axis: LoadAxis
    styles: tuple[ArmStyle, ...]
    mode: Mode


def load_axis(frame: pd.DataFrame) -> LoadAxis:
    """Return the x axis of these rows. Loads of equal concurrency (but another rate, say) need their names."""
    loads = frame[["concurrency", "pattern"]].drop_duplicates().sort_values(["concurrency", "pattern"])
    if loads["concurrency"].is_unique:
        return LoadAxis("load", "Concurrency (requests in flight)", tuple(loads["concurrency"].astype(str)))
    return LoadAxis("pattern", "Load", tuple(loads["pattern"]))


def with_load(frame: pd.DataFrame) -> pd.DataFrame:
    """`frame` with the column `load`: the concurrency as a label."""
    return frame.assign(load=frame["concurrency"].astype(str))


def facets(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Return a (title, rows) pair per category, and per dataset and output length where these differ."""
    keys = [key for key in _FACETS if key == "category" or (key in frame and len(frame[key].unique()) > 1)]
    for key, rows in frame.groupby(keys, sort=False, dropna=False):
        yield " · ".join(_FACETS[name](value) for name, value in zip(keys, key, strict=True)), rows


def without_wide(
    frame: pd.DataFrame,
    columns: Sequence[str] = ("ratio", "low", "high"),
    judge: Callable[[float, float, float], bool] = is_too_wide,
) -> pd.DataFrame:
    """Return the frame without interval ends that are shown as unknown: no whisker or axis is drawn for them."""
    numbers = zip(*(frame[name].astype(float) for name in columns), strict=True)
    is_wide = pd.Series([judge(*ends) for ends in numbers], index=frame.index, dtype=bool)
    return frame.assign(**{end: frame[end].mask(is_wide) for end in columns[1:]})


def written_ratios(frame: pd.DataFrame, columns: Sequence[str] = ("ratio", "low", "high")) -> list[str]:
    """Return the ratio of each row with its interval, as the pages write it."""
    return list(map(ratio, *(frame[column].astype(float) for column in columns)))


def ratio_axis(field: str, title: str, domain: tuple[float, float], **scale: Any) -> alt.Y:
    """Return the logarithmic y axis of ratios, labelled at values a reader recognises."""
    return alt.Y(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(type="log", base=2, domain=list(domain), nice=False, **scale),
        axis=alt.Axis(values=ratio_ticks(domain), labelOverlap=False, labelExpr="format(datum.value, '~g') + '×'"),
    )


def share_axis(field: str, title: str) -> alt.Y:
    """Return the y axis of shares, from 0 to 100 %."""
    return alt.Y(f"{field}:Q", title=title, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%", tickCount=5))


def ratio_domain(frame: pd.DataFrame) -> tuple[float, float]:
    """Return the common y range in ratios: everything measured, 1× well inside, and as much of the intervals as leaves
    the ratios readable.
    """
    frame = without_wide(frame)
    least, most = frame["ratio"].min() * 2**-_MOST_BEYOND, frame["ratio"].max() * 2**_MOST_BEYOND
    bounds = [frame[bound].fillna(frame["ratio"]).clip(least, most) for bound in ("low", "high")]
    logs = [math.log2(ratio) for ratio in pd.concat(bounds).dropna() if ratio > 0]
    low, high = min([-0.08, *logs]), max([0.08, *logs])
    low, high = min(low, -_LEAST_SHARE * high), max(high, -_LEAST_SHARE * low)
    room = 0.14 * (high - low)
    return 2 ** (low - room), 2 ** (high + room)


def ratio_ticks(domain: tuple[float, float]) -> list[float]:
    """Return labels of the y axis: 1×, and outwards from it every value that does not crowd the one before."""
    wide = math.log2(domain[1] / domain[0])
    apart, candidates, chosen = wide / _MOST_TICKS, _FINE_TICKS if wide < _FINE_LOG2 else _TICKS, [1.0]
    for outwards in ([tick for tick in candidates if tick > 1], [tick for tick in reversed(candidates) if tick < 1]):
        last = 1.0
        for tick in outwards:
            if domain[0] <= tick <= domain[1] and abs(math.log2(tick / last)) >= apart:
                chosen.append(tick)
                last = tick
    return sorted(chosen)
