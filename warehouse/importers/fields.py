"""A tool's figures declared once: what each became in Drafthouse, by which factor, or why it was left out.

docs/importing.md is written from these declarations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lab.errors import ForeignFileError
from lab.metrics.catalogue import METRICS
from lab.metrics.measure import Value
from warehouse.importers.json_node import Node
from warehouse.importers.model import LeftOut

_COUNTED = {metric.name for metric in METRICS if metric.unit in ("requests", "tokens", "rounds")}
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
#: Why a figure stays out, where several tools share the reason.
STD = "standard deviations are not kept; those of imported requests can be computed"
CHUNK_RATE = "counted from chunks, and a chunk is no token: too low by the acceptance length"
OTHER_PERCENTILE = "a percentile that Drafthouse has no column for"


@dataclass(frozen=True)
class Field:
    """`path` in the file (dots between keys), the column it became (None: none) times `factor`, and what to know."""

    path: str
    becomes: str | None
    words: str = ""
    factor: float = 1.0


@dataclass
class Taken:
    """What was read by declarations. Importers change it before they make their run of it."""

    metrics: dict[str, Value] = field(default_factory=dict)
    printed: dict[str, float] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def drop(self, names: Iterable[str], why: str) -> None:
        """Take columns back; those that had a value are noted."""
        for name in names:
            if self.metrics.pop(name, None) is not None:
                self.left_out.append(LeftOut(name, why))


def statistics_of(
    path: str, latency: str | None, words: str = "", factor: float = 1.0, statistics: Sequence[str] = _STATISTICS
) -> tuple[Field, ...]:
    """The fields of one latency: `path` has {} where the name of the statistic stands."""
    return tuple(
        Field(path.format(one), None if latency is None else f"{latency}_{one}_ms", words, factor) for one in statistics
    )


def latency_columns(*latencies: str) -> list[str]:
    return [f"{latency}_{statistic}_ms" for latency in latencies for statistic in _STATISTICS]


def take(node: Node, fields: Sequence[Field]) -> Taken:
    """Read every declared field that the file has. Raises ForeignFileError for one that became a column and is not
    the number it must be; what is left out anyway may be anything.
    """
    taken = Taken()
    for one in fields:
        if (found := _read(node, one)) is None:
            continue
        taken.printed[one.path] = found
        if one.becomes is None:
            taken.left_out.append(LeftOut(one.path, one.words))
        else:
            taken.metrics[one.becomes] = _converted(one, found)
    return taken


def _read(node: Node, one: Field) -> float | None:
    try:
        if (at := node.at(one.path)) is None:
            return None
        inner, key = at
        return inner.count(key) if one.becomes in _COUNTED else inner.number(key)
    except ForeignFileError:
        if one.becomes is None:
            return None
        raise


def _converted(one: Field, found: float) -> float | int:
    if one.becomes in _COUNTED:
        return int(found)
    return found if one.factor == 1.0 else found * one.factor
