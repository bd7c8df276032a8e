"""inference-perf's per_request_lifecycle_metrics.json: a list of requests with the moment of every chunk. Seconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from interchange.build import build_run
from interchange.fields import Taken
from interchange.json_reader import Document
from interchange.typed_json import Count, Name, Number, Numbers, Record, Text, all_known, at, either, error_text, parse
from warehouse.bundles.imported_run import ImportedRequest, ImportedRequests, ImportedRun

#: Where a request has its answer, the second in 0.5. Until 0.4 it has no times of chunks, only of lines.
_RESPONSE = ("response_metrics", "response_info")


class _Sent(Record):
    """The body of a request."""

    model: Name = None


class Request(Record):
    """One request; its times increase if it completed."""

    start_time: Number
    end_time: Number | None = None
    chunk_times: Numbers | None = either(*(("info", key, "chunk_times") for key in _RESPONSE))
    line_times: Numbers | None = at("info", "output_token_times")  # until 0.4
    prompt_tokens: Count | None = either(*(("info", key, "server_usage", "prompt_tokens") for key in _RESPONSE))
    completion_tokens: Count | None = either(*(("info", key, "server_usage", "completion_tokens") for key in _RESPONSE))
    error: Any = None
    request: Text | None = None

    @property
    def chunks_s(self) -> Sequence[float]:
        """Return when each chunk came; empty if that was not saved."""
        return all_known(self.chunk_times)

    @model_validator(mode="after")
    def _runs_forwards(self) -> Request:
        if self.error:
            return self
        if any(after < before for before, after in pairwise([self.start_time, *self.chunks_s])):
            raise PydanticCustomError("time", "a chunk came before the one before it: chunk_times run backwards")
        if self.end_time is not None and self.end_time < self.start_time:
            raise PydanticCustomError("time", "it ended before it began: end_time is before start_time")
        return self


def detect(value: object) -> bool:
    keys = ("start_time", "end_time", "request", "response", "error")
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(record, dict) and all(key in record for key in keys) for record in value)
    )


def in_order(document: Document) -> list[Request]:
    """Return the requests, in the order in which they were sent. Raises ForeignFileError."""
    kind = Annotated[list[Request], Field(fail_fast=True)]
    records: list[Request] = parse(kind, document, document.value, "a request of inference-perf")
    return sorted(records, key=lambda record: record.start_time)


def run(document: Document) -> ImportedRun:
    """Return the run of a file without its reports, computed from its requests."""
    records, taken = in_order(document), Taken()
    sent = requests(records)
    if len(sent.completed):
        end_s = max(request.end_time or 0.0 for request in records if not request.error)
        taken.metrics["duration_s"] = max(end_s - records[0].start_time, 0.0)
    taken.columns["target"] = model(records)
    return build_run("inference-perf", document, document.value, taken, requests=sent)


def requests(records: Sequence[Request]) -> ImportedRequests:
    first_s = records[0].start_time if records else 0.0
    listed = [_request(index, record, record.start_time - first_s) for index, record in enumerate(records)]
    return ImportedRequests.of(listed)


def model(records: Sequence[Request]) -> str | None:
    """Return the model that all requests named; None if they differ or were not saved."""
    named = {_model(record) for record in records}
    return named.pop() if len(named) == 1 else None


def _model(record: Request) -> str | None:
    try:
        return _Sent.model_validate(json.loads(record.request or "{}")).model
    except (ValidationError, ValueError, RecursionError):
        return None


def _request(index: int, record: Request, sent_s: float) -> ImportedRequest:
    if record.error:
        return ImportedRequest(index, error_text(record.error, "it failed"), sent_s, prompt_tokens=record.prompt_tokens)
    chunks, tokens = record.chunks_s, record.completion_tokens
    first = (chunks or all_known(record.line_times))[:1]
    return ImportedRequest(
        index,
        sent_s=sent_s,
        ttft_ms=(first[0] - record.start_time) * 1000 if first else None,
        tpot_ms=(chunks[-1] - chunks[0]) * 1000 / (tokens - 1) if chunks and tokens and tokens > 1 else None,
        e2e_ms=None if record.end_time is None else (record.end_time - record.start_time) * 1000,
        chunk_gaps_ms=tuple((after - before) * 1000 for before, after in pairwise(chunks)) if chunks else None,
        prompt_tokens=record.prompt_tokens,
        completion_tokens=tokens,
    )
