"""AIPerf's profile_export.jsonl: a line per request, its figures with their units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from interchange.build import build_run
from interchange.fields import Taken, started_at
from interchange.json_reader import Document
from interchange.typed_json import Count, Flag, Name, Number, Numbers, Record, all_known, at, error_text, whole
from warehouse.bundles.imported_run import ImportedRequest, ImportedRequests, ImportedRun, Scalar, SourceFile

_TO_MS = {"ms": 1.0, "s": 1000.0, "sec": 1000.0, "us": 1e-3, "ns": 1e-6}
_NS_PER_S = 1e9
#: Nanoseconds since 1970, larger than any other number here.
Nanoseconds = Annotated[int, Field(strict=True, ge=0, lt=2**63)]
_Unit = Literal["ms", "s", "sec", "us", "ns"]


class _Duration(Record):
    value: Number | None = None
    unit: _Unit

    @property
    def ms(self) -> float | None:
        return None if self.value is None else self.value * _TO_MS[self.unit]


class _Durations(Record):
    value: Numbers | None = None
    unit: _Unit

    @property
    def ms(self) -> tuple[float, ...] | None:
        """Return the durations in ms; None if one of them is unknown."""
        if self.value is None or None in self.value:
            return None
        return tuple(value * _TO_MS[self.unit] for value in all_known(self.value))


class _Line(Record):
    start_ns: Nanoseconds = at("metadata", "request_start_ns", default=...)
    end_ns: Nanoseconds = at("metadata", "request_end_ns", default=...)
    phase: Name = at("metadata", "benchmark_phase")
    was_cancelled: Flag | None = at("metadata", "was_cancelled")
    error: Any = None
    prompt_tokens: Count | None = at("metrics", "usage_prompt_tokens", "value")
    tokens: Count | None = at("metrics", "usage_completion_tokens", "value")
    ttft: _Duration | None = at("metrics", "time_to_first_token")
    decoding: _Duration | None = at("metrics", "decode_duration")
    e2e: _Duration | None = at("metrics", "request_latency")
    chunk_gaps: _Durations | None = at("metrics", "inter_chunk_latency")
    spec_drafts: Count | None = at("metrics", "spec_decode_steps", "value")
    spec_draft_tokens: Count | None = at("metrics", "spec_decode_draft_tokens", "value")
    spec_accepted_tokens: Count | None = at("metrics", "spec_decode_accepted_draft_tokens", "value")
    num_spec_tokens: Count | None = at("spec_decode_acceptance", "num_spec_tokens")


@dataclass(frozen=True)
class RequestLines:
    """A file's lines of the measured phase, in the order in which their requests were sent."""

    document: Document
    content: list[object]
    lines: tuple[_Line, ...]

    @property
    def source(self) -> SourceFile:
        return self.document.file.source


def detect(value: object) -> bool:
    if not isinstance(value, dict) or "metrics" not in value:
        return False
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and "request_start_ns" in metadata


def request_lines(documents: Sequence[Document]) -> RequestLines:
    """Return the lines of one file without those of its warm-up. Raises ForeignFileError."""
    lines = [whole(document).parse(_Line, "a line of AIPerf's profile_export.jsonl") for document in documents]
    measured = [line for line in lines if (line.phase or "profiling") == "profiling"]
    ordered = tuple(sorted(measured, key=lambda line: line.start_ns))
    return RequestLines(documents[0], [document.value for document in documents], ordered)


def run(lines_of_run: RequestLines) -> ImportedRun:
    """Return the run of a file without a summary, computed from its requests."""
    taken, sent = Taken(), requests(lines_of_run)
    if len(sent.completed):
        end_ns = max(line.end_ns for line in lines_of_run.lines if not _has_failed(line))
        taken.metrics["duration_s"] = max(end_ns - _first_ns(lines_of_run), 0) / _NS_PER_S
    taken.columns |= columns(lines_of_run)
    return build_run("aiperf", lines_of_run.document, lines_of_run.content, taken, requests=sent)


def requests(lines_of_run: RequestLines) -> ImportedRequests:
    return ImportedRequests.of(
        [
            _request(index, line, (line.start_ns - _first_ns(lines_of_run)) / _NS_PER_S)
            for index, line in enumerate(lines_of_run.lines)
        ]
    )


def columns(lines_of_run: RequestLines) -> dict[str, Scalar]:
    """Return the run's columns, computed from its lines."""
    if not lines_of_run.lines:
        return {}
    start: dict[str, Scalar] = {"started_at": started_at(_first_ns(lines_of_run) / _NS_PER_S)}
    counts = {line.num_spec_tokens for line in lines_of_run.lines} - {None}
    return start | ({"num_speculative_tokens": counts.pop()} if len(counts) == 1 else {})


def _first_ns(lines_of_run: RequestLines) -> int:
    return lines_of_run.lines[0].start_ns


def _has_failed(line: _Line) -> bool:
    return bool(line.error or line.was_cancelled)


def _request(index: int, line: _Line, sent_s: float) -> ImportedRequest:
    tokens = line.tokens
    if _has_failed(line):
        error = error_text(line.error, "it was cancelled")
        return ImportedRequest(index, error, sent_s, prompt_tokens=line.prompt_tokens)
    decoding_ms = line.decoding.ms if line.decoding else None
    return ImportedRequest(
        index,
        sent_s=sent_s,
        ttft_ms=line.ttft.ms if line.ttft else None,
        tpot_ms=decoding_ms / (tokens - 1) if decoding_ms is not None and tokens and tokens > 1 else None,
        e2e_ms=line.e2e.ms if line.e2e else None,
        chunk_gaps_ms=line.chunk_gaps.ms if line.chunk_gaps else None,
        prompt_tokens=line.prompt_tokens,
        completion_tokens=tokens,
        spec_drafts=line.spec_drafts,
        spec_draft_tokens=line.spec_draft_tokens,
        spec_accepted_tokens=line.spec_accepted_tokens,
    )
