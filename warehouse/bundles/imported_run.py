"""One run as another tool's file describes it. What the file lacks is None, never 0."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa
from pydantic import InstanceOf

from lab.metrics.catalogue import METRICS
from lab.metrics.latency import Samples
from lab.metrics.measure import Value
from lab.metrics.record_columns import record_schema
from lab.metrics.record_table import Mask, RecordTable

Scalar = str | int | float | bool | None

#: Columns of `runs` that a foreign file may fill; every imported run has each of them, most of them None.
COLUMNS = (
    "target",
    "method",
    "draft_model",
    "num_speculative_tokens",
    "dataset",
    "requested_output_tokens",
    "input_tokens",
    "ignore_eos",
    "temperature",
    "concurrency",
    "num_prompts",
    "request_rate_rps",
    "burstiness",
    "endpoint",
    "repeat",
    "started_at",
    "engine",
    "engine_version",
)


@dataclass(frozen=True)
class SourceFile:
    """A file that a run was read from: its name as given, and the digest of its content."""

    name: str
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class LeftOut:
    """A figure of the file that has no column, and why."""

    field: str
    why: str


@dataclass(frozen=True)
class ImportedRequest:
    """One request as the file describes it. A failed request has its error and no latency, whatever its row holds."""

    index: int
    error: str | None = None
    sent_s: float | None = None  # since the first request was sent
    ttft_ms: float | None = None
    tpot_ms: float | None = None  # also None for a request of one token
    e2e_ms: float | None = None
    chunk_gaps_ms: Sequence[float] | None = None  # a chunk may hold several tokens
    token_gaps_ms: Sequence[float] | None = None  # a chunk's gap divided over its tokens
    prompt_tokens: int | None = None
    completion_tokens: int | None = None  # as the server counted
    output_text: str | None = None
    spec_drafts: int | None = None
    spec_draft_tokens: int | None = None
    spec_accepted_tokens: int | None = None


class ImportedRequests(RecordTable):
    """The requests of a run, with a column for each field of ImportedRequest. Counts are 64 bits wide: a file may hold
    any.
    """

    schema = pa.schema(
        [
            field.with_type(pa.int64()) if field.nullable and field.type == pa.int32() else field
            for field in record_schema(ImportedRequest)
        ]
    )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ImportedRequests) and bool(self.arrow.equals(other.arrow))

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def is_completed(self) -> Mask:
        return ~self.known("error")

    @property
    def completed(self) -> ImportedRequests:
        """Return the requests that ended without an error."""
        # Not cached if it is the table itself, which would refer to itself and stay in memory until it is collected.
        return self if self.is_completed.all() else self._completed

    @cached_property
    def _completed(self) -> ImportedRequests:
        return self.where(self.is_completed)


@dataclass(frozen=True)
class ImportedRun:
    """A run of another tool. `run_id` is the digest of what the file says of this run: importing it again, alone or
    as part of a longer file, gives the same id.

    `metrics` has all of METRICS, `columns` all of COLUMNS. `printed` holds the tool's own figures under its own names
    and in its own units. `doubts` are sentences about figures that contradict each other.
    """

    run_id: str
    tool: str  # a key of interchange.formats.FORMATS
    tool_version: str | None
    source: SourceFile
    place: str  # where in the file, for people: "line 2", "benchmarks[1]"; empty if the file is one run
    columns: Mapping[str, Scalar]
    metrics: Mapping[str, Value]
    requests: InstanceOf[ImportedRequests] | None = None  # None if the file has no rows of requests
    labels: Mapping[str, str] = field(default_factory=dict)
    printed: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[LeftOut, ...] = ()
    doubts: tuple[str, ...] = ()
    companions: tuple[SourceFile, ...] = ()  # other files about the same run


def run_id(tool: str, content: object) -> str:
    """Return the SHA-256 (hex) of the tool's name and the canonical JSON of its description of the run."""
    digest = hashlib.sha256(f"{tool}\n".encode())
    for text in canonical_json(content):
        digest.update(text.encode())
    return digest.hexdigest()


#: Arrays of numbers are written as lists.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=list)
#: Elements of a list that are written at once.
_ELEMENTS = 100


def canonical_json(value: object) -> Iterator[str]:
    """Yield the JSON of a value in pieces, with keys in order and no spaces: whole, it takes ten times the memory."""
    if isinstance(value, dict):
        yield "{"
        for number, key in enumerate(sorted(value)):
            yield f"{',' if number else ''}{_ENCODER.encode(key)}:"
            yield from canonical_json(value[key])
        yield "}"
    elif isinstance(value, list):
        yield "["
        for start in range(0, len(value), _ELEMENTS):
            yield f"{',' if start else ''}{_ENCODER.encode(value[start : start + _ELEMENTS])[1:-1]}"
        yield "]"
    else:
        yield _ENCODER.encode(value)


def all_columns(recorded: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    """Return all of COLUMNS, None where unknown. Raises KeyError for any other name."""
    return _filled(dict.fromkeys(COLUMNS), recorded)


def all_metrics(recorded: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return all of METRICS, None where unknown. Raises KeyError for any other name."""
    return _filled(dict.fromkeys(metric.name for metric in METRICS), recorded)


_T = TypeVar("_T")


def _filled(empty: Mapping[str, _T | None], recorded: Mapping[str, _T | None]) -> dict[str, _T | None]:
    if unknown := set(recorded) - set(empty):
        raise KeyError(f"no such column: {sorted(unknown)}")
    return {**empty, **recorded}


_GAPS = {"icl": "chunk_gaps_ms", "itl": "token_gaps_ms"}


def latencies_of(completed: ImportedRequests) -> dict[str, Samples]:
    """Return all values of each latency in ms; none if one request's are unknown.

    An answer without a token has no TTFT, and one of a single token no TPOT. Some tools do not count tokens: there an
    answer without a TTFT is one without text.
    """
    values: dict[str, Samples] = {}
    tokens = completed.numbers("completion_tokens")
    have = {"ttft": tokens >= 1, "tpot": ~(tokens < 2), "e2e": np.ones(len(completed), dtype=np.bool_)}
    for name, has in have.items():
        latency_ms = completed.numbers(f"{name}_ms")
        known = ~np.isnan(latency_ms)
        values[name] = latency_ms[known] if known[has].all() else np.zeros(0)
    for name, column in _GAPS.items():
        gaps_ms = completed.lists(column)
        values[name] = gaps_ms.values if gaps_ms.known.all() else np.zeros(0)
    return values
