"""What the panels of a figure share: loads on the x axis, order of arms, y range."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import altair as alt
import pandas as pd

from lab.metrics.number_format import is_too_wide, ratio
from webapp.charts.theme import ArmStyle, Mode

DrawnChart = TypeVar("DrawnChart", alt.Chart, alt.LayerChart)

PANEL_HEIGHT = 280
_WRITTEN = "_written"
#: Labels of an axis of any numbers: 0, 0.3, 250, 12k. SI's own letters would make 0.3 of them 300m, and 0 of 5k 0k.
SHORT = "abs(datum.value) < 1000 ? format(datum.value, '.4~g') : format(datum.value, '.4~s')"
#: Columns that are constant within a panel -> their words in its title.
_FACETS: dict[str, Callable[[Any], str]] = {
    "dataset": str,
    "category": lambda category: "all categories" if category == "all" else str(category),
    "requested_output_tokens": lambda tokens: f"{'any number of' if pd.isna(tokens) else int(tokens)} output tokens",
}


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
    """What the panels of a figure have in common besides their y range."""

    axis: LoadAxis
    styles: tuple[ArmStyle, ...]
    mode: Mode


def load_axis(frame: pd.DataFrame) -> LoadAxis:
    """The x axis of these rows. Loads of equal concurrency (another rate or number of prompts) need their names."""
    loads = frame[["concurrency", "pattern"]].drop_duplicates().sort_values(["concurrency", "pattern"])
    if loads["concurrency"].is_unique:
        return LoadAxis("load", "Concurrency (requests in flight)", tuple(loads["concurrency"].astype(str)))
    return LoadAxis("pattern", "Load", tuple(loads["pattern"]))


def with_load(frame: pd.DataFrame) -> pd.DataFrame:
    """`frame` with the column `load`: the concurrency as a label."""
    return frame.assign(load=frame["concurrency"].astype(str))


def facets(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """One (title, rows) pair per category; dataset and output length part them too where they differ."""
    keys = [key for key in _FACETS if key == "category" or (key in frame and len(frame[key].unique()) > 1)]
    for key, rows in frame.groupby(keys, sort=False, dropna=False):
        yield " · ".join(_FACETS[name](value) for name, value in zip(keys, key, strict=True)), rows


def number_tooltip(column: str, title: str) -> alt.Tooltip:
    """The column's number as `lab.metrics.number_format.number` writes it, in a chart with `with_written` of it."""
    return alt.Tooltip(f"{column}{_WRITTEN}:N", title=title)


def with_written(chart: DrawnChart, *columns: str) -> DrawnChart:
    """The chart with the numbers of these columns written for its tooltips, by the browser: d3 has no such format."""
    texts = {f"{column}{_WRITTEN}": _written(f"datum[{json.dumps(column)}]") for column in columns}
    return chart.transform_calculate(**texts)


def _written(value: str) -> str:
    few = f"{value} == 0 ? '0' : format({value}, abs({value}) < 1000 ? ',.3r' : ',.0f')"
    return f"isValid({value}) ? {few} : '–'"


def without_wide(
    frame: pd.DataFrame,
    columns: Sequence[str] = ("ratio", "low", "high"),
    judge: Callable[[float, float, float], bool] = is_too_wide,
) -> pd.DataFrame:
    """The frame without the ends of intervals that are shown as unknown: no whisker is drawn, no axis made for them."""
    numbers = zip(*(frame[name].astype(float) for name in columns), strict=True)
    is_wide = pd.Series([judge(*ends) for ends in numbers], index=frame.index, dtype=bool)
    return frame.assign(**{end: frame[end].mask(is_wide) for end in columns[1:]})


def written_ratios(frame: pd.DataFrame, columns: Sequence[str] = ("ratio", "low", "high")) -> list[str]:
    """The ratio of each row with its interval, as the pages write it."""
    return list(map(ratio, *(frame[column].astype(float) for column in columns)))
