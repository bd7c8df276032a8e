"""The axes and series of the Explore page's charts: metrics of a run with their units, dimensions, colours and marks.

A label is also its name in a link. Runs measured here have full marks; imported and published ones have hollow marks
and dashed lines of the same colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import altair as alt
import pandas as pd

from lab.metrics import catalogue
from lab.metrics.catalogue import METRICS
from lab.metrics.definition import Metric
from webapp.charts.results import MEASURES
from webapp.charts.theme import WITHOUT, ArmStyle, Drafting, Mode, arm_styles, drafting_of

Kind = Literal["number", "time", "ordinal"]
MEASURED = "measured"
_ORIGINS = (MEASURED, "imported", "published")
_HOLLOW = {"circle": "○", "square": "□", "triangle-up": "△", "diamond": "◇", "triangle-down": "▽", "cross": "✛"}


@dataclass(frozen=True)
class Axis:
    """A column of `warehouse.queries.slices.runs`, its label and unit; `factor` converts its numbers to `unit`."""

    label: str
    column: str
    kind: Kind
    unit: str = ""
    factor: float = 1.0
    about: str = ""

    @property
    def title(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label


def _metric_axis(metric: Metric) -> Axis:
    return Axis(metric.label, metric.name, "number", metric.shown_unit, metric.factor, metric.formula)


_MEASURED = {metric.name: _metric_axis(metric) for metric in METRICS if not metric.has_several}
PER_USER, PER_GPU, COST = (_metric_axis(metric) for metric in (catalogue.PER_USER, catalogue.PER_GPU, catalogue.COST))
#: The ratio of a run's output throughput to the baseline's run of the same repeat, workload and load.
SPEEDUP = Axis(
    "Speed-up",
    "speedup",
    "number",
    "×",
    1.0,
    "Output throughput over the baseline's, of the same cell and repeat",
)
_FIRST = (*(metric.name for metric in MEASURES), "acceptance_length", "acceptance_rate")
#: All metrics that are a single number, the most common ones first.
NUMBERS: tuple[Axis, ...] = (
    *(_MEASURED[name] for name in _FIRST),
    SPEEDUP,
    PER_USER,
    PER_GPU,
    COST,
    *(axis for name, axis in _MEASURED.items() if name not in _FIRST),
)
DIMENSIONS: tuple[Axis, ...] = (
    Axis("Concurrency", "concurrency", "ordinal", "requests in flight"),
    Axis("Arm", "arm", "ordinal"),
    Axis("Category", "category", "ordinal"),
    Axis("Dataset", "dataset", "ordinal"),
    Axis("Draft tokens k", "k", "ordinal", "tokens per round"),
    Axis("Draft model", "draft_model", "ordinal"),
    Axis("Method", "method", "ordinal"),
    Axis("Request rate", "request_rate", "ordinal", "requests/s"),
    Axis("Load", "load", "ordinal"),
    Axis("Engine", "engine", "ordinal"),
    Axis("Hardware", "hardware", "ordinal"),
    Axis("Target", "target", "ordinal"),
    Axis("Study", "study", "ordinal"),
    Axis("Origin", "origin", "ordinal"),
    Axis("Day", "day", "ordinal", "UTC"),
)
#: Dimensions of a run's requests, by which marks can split it.
OF_REQUESTS: tuple[Axis, ...] = (
    Axis("Turn of the session", "turn", "ordinal", "9 stands for 9 to 16, and so on"),
    Axis("Context up to", "context", "ordinal", "tokens"),
)
BEGUN = Axis("Date", "started_at", "time", "UTC")
LATENCIES: tuple[Axis, ...] = tuple(map(_metric_axis, catalogue.LATENCIES.values()))


def natural(value: str) -> tuple[int, float, str]:
    """Return a sort key: numbers by size, then words, then none and unknown."""
    if value in ("none", "closed loop"):
        return 2, 0.0, value
    if value == "unknown":
        return 3, 0.0, value
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value.lower()


@dataclass(frozen=True)
class Order:
    """The arms of the newest study in its own order; its baseline is grey on every page. `drafting`: how arms of this
    name draft, those of other studies too.
    """

    arms: tuple[str, ...] = ()
    baseline: str | None = None
    drafting: Mapping[str, Drafting] = field(default_factory=dict)


def with_series(rows: pd.DataFrame, colour: Axis) -> pd.DataFrame:
    """Add `series`: the value of the colour's dimension, and its origin if it was not measured here."""
    value = rows[colour.column]
    if colour.column == "origin":
        return rows.assign(series=value)
    return rows.assign(series=value.where(rows["origin"] == MEASURED, value + " · " + rows["origin"]))


def styles(rows: pd.DataFrame, colour: Axis, order: Order, mode: Mode) -> tuple[ArmStyle, ...]:
    """Return the styles of the series in `rows`; arms in the order given, other values by number and alphabet."""
    first, baseline = (order.arms, order.baseline) if colour.column == "arm" else ((), WITHOUT)
    names = rows[[colour.column, "origin", "series"]].drop_duplicates().set_index([colour.column, "origin"])["series"]
    values = list(dict.fromkeys([*first, *sorted(rows[colour.column].unique(), key=natural)]))
    return tuple(
        replace(
            style,
            arm=names[style.arm, origin],
            letter=style.letter if origin == MEASURED else _HOLLOW[style.shape],
            hollow=origin != MEASURED,
        )
        for style in arm_styles(values, baseline, mode, _drafting(rows, colour, order))
        for origin in _ORIGINS
        if (style.arm, origin) in names.index
    )


def _drafting(rows: pd.DataFrame, colour: Axis, order: Order) -> Mapping[str, Drafting]:
    """Return how the series of arms draft, or the methods themselves; nothing for other dimensions."""
    if colour.column == "method":
        return {method: (method, None) for method in rows["method"].unique()}
    if colour.column != "arm" or "method" not in rows:
        return order.drafting if colour.column == "arm" else {}
    published = rows.drop_duplicates("arm", keep="last")
    k = pd.to_numeric(published["k"], errors="coerce")
    return {**drafting_of(published["arm"], published["method"], k), **order.drafting}


def dash(styles: Sequence[ArmStyle]) -> alt.StrokeDash:
    dashes = [[5, 4] if style.hollow else [1, 0] for style in styles]
    scale = alt.Scale(domain=[style.arm for style in styles], range=dashes)
    return alt.StrokeDash("series:N", scale=scale, legend=None)
