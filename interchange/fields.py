"""Figures of a tool, declared once: what each became in Drafthouse, by which factor, or why it was left out.

The tables of docs/importing.md are generated from these declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from typing import Annotated, Any

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator, create_model

from interchange.typed_json import Count, Number, Part, Record
from lab.metrics.catalogue import METRICS
from lab.metrics.measure import Value
from warehouse.bundles.imported_run import LeftOut

_COUNTED = {metric.name for metric in METRICS if metric.unit in ("requests", "tokens", "rounds")}
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
#: Reasons to leave out a figure that several tools share.
STD = "standard deviations are not stored; they can be computed from imported requests"
CHUNK_RATE = "counted in chunks, not tokens: too low by the acceptance length"
OTHER_PERCENTILE = "no column for this percentile"


@dataclass(frozen=True)
class Figure:
    """A number of a file: its `path` (dots between keys), the column it became times `factor` (None: left out), and a
    remark.
    """

    path: str
    becomes: str | None
    words: str = ""
    factor: float = 1.0


@dataclass
class Taken:
    """The figures read from a file. Importers adjust them before they build the run."""

    metrics: dict[str, Value] = field(default_factory=dict)
    printed: dict[str, float] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def drop(self, names: Iterable[str], why: str) -> None:
        """Remove columns; note the reason for those that had a value."""
        for name in names:
            if self.metrics.pop(name, None) is not None:
                self.left_out.append(LeftOut(name, why))


def statistics_of(
    path: str, latency: str | None, words: str = "", factor: float = 1.0, statistics: Sequence[str] = _STATISTICS
) -> tuple[Figure, ...]:
    """The figures of one latency: `path` has {} in place of the statistic's name."""
    return tuple(
        Figure(path.format(statistic), None if latency is None else f"{latency}_{statistic}_ms", words, factor)
        for statistic in statistics
    )


def latency_columns(*latencies: str) -> list[str]:
    return [f"{latency}_{statistic}_ms" for latency in latencies for statistic in _STATISTICS]


def take(part: Part, fields: tuple[Figure, ...]) -> Taken:
    """Read every declared field that the file has. Raises ForeignFileError if one that became a column is not the
    number it must be; a field that is left out may hold anything.
    """
    taken = Taken()
    figures: Any = part.parse(_model(fields), "its figures")
    for figure in fields:
        value = reduce(lambda inner, key: getattr(inner, key, None), figure.path.split("."), figures)
        if not isinstance(value, (int, float)):
            continue
        taken.printed[figure.path] = value
        if figure.becomes is None:
            taken.left_out.append(LeftOut(figure.path, figure.words))
        else:
            taken.metrics[figure.becomes] = value if figure.factor == 1.0 else value * figure.factor
    return taken


@cache
def _model(fields: tuple[Figure, ...]) -> type[Record]:
    """A model with an attribute for each step of the declared paths."""
    branches: dict[str, list[Figure]] = {}
    for figure in fields:
        step, _, rest = figure.path.partition(".")
        branches.setdefault(step, []).append(replace(figure, path=rest))
    types: dict[str, Any] = {step: (_type(tuple(inner)), None) for step, inner in branches.items()}
    model: type[Record] = create_model("Figures", __base__=Record, **types)
    return model


def _type(fields: tuple[Figure, ...]) -> Any:
    """The type of one step; whatever does not fit is None if nothing under it became a column."""
    counted = fields[0].becomes in _COUNTED
    inner: Any = _model(fields) if fields[0].path else Count if counted else Number
    if any(figure.becomes for figure in fields):
        return inner | None
    return Annotated[inner | None, WrapValidator(_none_if_invalid)]


def _none_if_invalid(value: object, validate: ValidatorFunctionWrapHandler) -> object:
    try:
        return validate(value)
    except ValidationError:
        return None
