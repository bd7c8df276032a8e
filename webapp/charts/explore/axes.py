"""The axes of the Explore page's charts: metrics of a run with their units, and dimensions.

A label is also its name in a link.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from lab.metrics import catalogue
from lab.metrics.catalogue import METRICS
from lab.metrics.definition import Metric
from webapp.charts.measures import MEASURES

Kind = Literal["number", "time", "ordinal"]


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


_MEASURED = {metric.name: _metric_axis(metric) for metric in METRICS if metric.name != "acceptance_per_position"}
PER_USER, PER_GPU, COST = (_metric_axis(metric) for metric in (catalogue.PER_USER, catalogue.PER_GPU, catalogue.COST))
_FIRST = (*(metric.name for metric in MEASURES), "acceptance_length", "acceptance_rate")
#: All metrics that are a single number, the most common ones first.
NUMBERS: tuple[Axis, ...] = (
    *(_MEASURED[name] for name in _FIRST),
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
BEGUN = Axis("Date", "started_at", "time", "UTC")
LATENCIES: tuple[Axis, ...] = tuple(map(_metric_axis, catalogue.LATENCIES.values()))


def natural(value: str) -> tuple[int, float, str]:
    """A sort key: numbers by size, then words, then none and unknown."""
    if value in ("none", "closed loop"):
        return 2, 0.0, value
    if value == "unknown":
        return 3, 0.0, value
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value.lower()
