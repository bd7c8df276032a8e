"""Declarations of formats: what each figure of a file becomes in Drafthouse, by which factor, or why it is left out.

The tables of docs/importing.md are generated from these declarations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from interchange.json_reader import Document
from interchange.typed_json import Count, Flag, Name, Number, Numbers, Part, all_known, parse, records
from lab.errors import ForeignFileError
from lab.metrics.catalogue import METRICS
from lab.metrics.measure import Value
from warehouse.bundles.imported_run import COLUMNS, ImportedRun, LeftOut, Scalar

_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
#: How tools call some of them.
_OURS = {"avg": "mean", "median": "p50"}
#: SGLang's request rate if each request was sent at the time that a trace says.
TRACE = "trace"
#: Reasons to leave out a figure that several tools share.
STD = "standard deviations are not stored"
CHUNK_RATE = "counted in chunks, not tokens: too low by the acceptance length"
OTHER_PERCENTILE = "no column for this percentile"


def started_at(epoch_s: float | None) -> str | None:
    """Return UTC in ISO 8601; None for a moment before 2000 or after 2100, which cannot be a real start."""
    if epoch_s is None or not 946_684_800 <= epoch_s < 4_102_444_800:
        return None
    return datetime.fromtimestamp(epoch_s, UTC).isoformat()


#: Seconds since 1970, as a time of day.
Moment = Annotated[Number, AfterValidator(started_at)]
#: Requests per second; None for "inf", Infinity and null (all requests were sent at once), for SGLang's "trace", and
#: for 0, which inference-perf writes for sessions.
_Rate = Annotated[
    Number | None,
    BeforeValidator(lambda value: None if value in ("inf", float("inf"), TRACE) else value),
    AfterValidator(lambda rate: rate or None),
]
#: The most requests in flight; None for 0, which is no limit.
_Concurrency = Annotated[Count | None, AfterValidator(lambda limit: limit or None)]
#: The shape of arrivals; None for Infinity, by which vLLM means a constant rate.
_Burstiness = Annotated[Number | None, BeforeValidator(lambda value: None if value == float("inf") else value)]
_Rates = Annotated[Numbers, AfterValidator(lambda values: tuple(all_known(values)) or None)]
#: How each metric and column is read unless its figure has a type of its own.
_TYPES: dict[str | None, Any] = {
    None: Number,
    **dict.fromkeys(COLUMNS, Name),
    **dict.fromkeys(("num_speculative_tokens", "requested_output_tokens", "input_tokens", "repeat"), Count),
    "num_prompts": Count,
    "concurrency": _Concurrency,
    "temperature": Number,
    "burstiness": _Burstiness,
    "ignore_eos": Flag,
    "request_rate_rps": _Rate,
    **{metric.name: Count if metric.is_whole else Number for metric in METRICS},
    "acceptance_per_position": _Rates,
}


@dataclass(frozen=True)
class Figure:
    """A value of a file: its `path` (dots between keys), the metric or column it became (None: left out) times
    `factor`, a remark, and its pydantic type where it is not the usual one of that column.
    """

    path: str
    becomes: str | None
    remark: str = ""
    factor: float = 1.0
    type: Any = None


@dataclass(frozen=True)
class Format:
    """A format of result files. `read` gets the documents of one file, or of one folder, that have this format."""

    name: str
    title: str
    seen_versions: str  # of the tool whose files the importer was tested with
    detect: Callable[[object], bool]
    read: Callable[[Sequence[Document]], list[ImportedRun]]
    figures: tuple[Figure, ...]
    notes: Mapping[str, str]  # how fields that no figure declares are handled
    is_of_folder: bool = False  # whether several files of a folder describe one run
    #: What another file of the tool is, which is no result, with what to import instead; empty for any other file.
    not_a_run: Callable[[object], str] = lambda _value: ""


@dataclass
class Taken:
    """The figures read from a file. Importers adjust them before they build the run."""

    metrics: dict[str, Value] = field(default_factory=dict)
    columns: dict[str, Scalar] = field(default_factory=dict)
    printed: dict[str, float] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)  # sentences about figures of the file that contradict each other

    def leave_out(self, name: str, why: str) -> None:
        """Record why the run lacks a figure."""
        self.left_out.append(LeftOut(name, why))

    def drop(self, names: Iterable[str], why: str) -> None:
        """Remove metrics; record the reason for each that had a value."""
        for name in names:
            if self.metrics.pop(name, None) is not None:
                self.leave_out(name, why)


def one_of(names: Mapping[str, str]) -> Any:
    """Return the type of a name that is translated; None for a name that is not listed."""
    return Annotated[Name, AfterValidator(names.get)]


def has_keys(value: object, *keys: str) -> bool:
    """Return whether the value is an object with all of these keys, as the detection of formats needs."""
    return isinstance(value, dict) and all(key in value for key in keys)


def is_record(value: object, *keys: str) -> bool:
    """Return whether the value is an object with these keys, or a list of some."""
    if isinstance(value, list):
        return bool(value) and all(has_keys(record, *keys) for record in value)
    return has_keys(value, *keys)


def of_each_record(run: Callable[[Part, str], ImportedRun]) -> Callable[[Sequence[Document]], list[ImportedRun]]:
    """Return a reader of files that hold a record, a list of some, or one a line. Each is a run, by its place there."""
    return lambda documents: [run(part, place) for document in documents for part, place in records(document)]


def statistics_of(
    path: str, latency: str, remark: str = "", factor: float = 1.0, statistics: Sequence[str] = _STATISTICS
) -> Iterator[Figure]:
    """Yield the figures of one latency: `path` has {} in place of the statistic's name. Some have no column."""
    for statistic in statistics:
        field, ours = path.format(statistic), _OURS.get(statistic, statistic)
        if ours in _STATISTICS:
            yield Figure(field, f"{latency}_{ours}_ms", remark, factor)
        else:
            yield Figure(field, None, STD if statistic.startswith("std") else OTHER_PERCENTILE)


def latencies_of(
    path: str,
    latencies: Mapping[str, str | tuple[str, str]],
    remark: str = "",
    factor: float = 1.0,
    statistics: Sequence[str] = _STATISTICS,
) -> Iterator[Figure]:
    """Yield the figures of several latencies by their names, each with ours, or with ours and a remark of its own.
    `path` has {latency} and {statistic} in place of the names.
    """
    for name, of in latencies.items():
        ours, why = (of, remark) if isinstance(of, str) else of
        yield from statistics_of(path.format(latency=name, statistic="{}"), ours, why, factor, statistics)


def latency_columns(*latencies: str) -> list[str]:
    """Return the names of all statistics of these latencies."""
    return [f"{latency}_{statistic}_ms" for latency in latencies for statistic in _STATISTICS]


def take(part: Part, figures: Sequence[Figure], owner: str, needed: Sequence[str] = ()) -> Taken:
    """Read every declared figure that the file has. Raises ForeignFileError if a `needed` figure is missing from
    the file `owner`, or if a figure that becomes a column has another type; left-out figures may hold anything.
    """
    taken = Taken()
    for figure in figures:
        value: Any = None
        with contextlib.suppress(*([ForeignFileError] if figure.becomes is None else [])):
            value = _value(part, figure, owner, is_needed=figure.path in needed)
        if value is None:
            continue
        if figure.becomes in COLUMNS:
            taken.columns[figure.becomes] = value
            continue
        if isinstance(value, (int, float)):
            taken.printed[figure.path] = value
        if figure.becomes is None:
            taken.leave_out(figure.path, figure.remark)
        else:
            taken.metrics[figure.becomes] = value if figure.factor == 1.0 else value * figure.factor
    return taken


def _value(part: Part, figure: Figure, owner: str, *, is_needed: bool) -> Any:
    value: Any = part.content
    at = part.at
    for key in (figure.path,) if figure.path in part.content else figure.path.split("."):
        value = parse(dict[str, Any], part.document, value, owner, at).get(key)
        at = (*at, key)
        if value is None and is_needed:
            raise part.document.error(at, f"this is missing in {owner}")
        if value is None:
            return None
    return parse(figure.type or _TYPES[figure.becomes], part.document, value, owner, at)
