"""GuideLLM's benchmarks.json since 0.2: one object with a list of benchmarks, each of them a run.

Since 0.5 the report has a version; in 0.2 and 0.3 the values stand under other keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from interchange import build
from interchange.build import build_run
from interchange.fields import Figure, Format, Moment, Taken, has_keys, one_of, take
from interchange.json_reader import Document
from interchange.typed_json import (
    LARGEST,
    Count,
    Flag,
    Name,
    Number,
    Numbers,
    Part,
    Record,
    Text,
    at,
    either,
    error_text,
    parts,
    whole,
)
from lab.metrics.measure import Value
from warehouse.bundles.imported_run import ImportedRequest, ImportedRequests, ImportedRun

#: Known versions of the report; a later one may give the same names other meanings.
_SUPPORTED = (1, 2)
_UNTIL_03 = "until 0.3"
_STEPS = "not interpolated; recomputed from the requests"
_MEANS = {"time_to_first_token_ms": ("ttft", 1.0), "request_latency": ("e2e", 1000.0)}
_FORMATS = {"/v1/completions": "completions", "/v1/chat/completions": "chat"}


_FIGURES: tuple[Figure, ...] = (
    Figure("config.backend.model", "target"),
    Figure("config.backend.request_format", "endpoint", type=one_of(_FORMATS)),
    Figure("config.strategy.streams", "concurrency", "1 if the strategy is synchronous"),
    Figure("config.strategy.rate", "request_rate_rps"),
    Figure("worker.backend_model", "target", _UNTIL_03),
    Figure("args.strategy.streams", "concurrency", _UNTIL_03),
    Figure("args.strategy.rate", "request_rate_rps", _UNTIL_03),
    Figure("args.max_number", "num_prompts", _UNTIL_03),
    Figure("start_time", "started_at", type=Moment),
    Figure("metrics.request_totals.successful", "requests_completed"),
    Figure("request_totals.successful", "requests_completed", _UNTIL_03),
    Figure("duration", "duration_s"),
    Figure("metrics.prompt_token_count.successful.total_sum", "prompt_tokens"),
    Figure("metrics.output_token_count.successful.total_sum", "completion_tokens"),
    Figure("metrics.requests_per_second.successful.mean", "request_per_s"),
    Figure("metrics.output_tokens_per_second.successful.mean", "output_tok_per_s"),
    Figure("metrics.tokens_per_second.successful.mean", "total_tok_per_s"),
    *(
        Figure(f"metrics.{name}.successful.mean", f"{ours}_mean_ms", factor=factor)
        for name, (ours, factor) in _MEANS.items()
    ),
    Figure(
        "metrics.time_per_output_token_ms.successful.mean",
        None,
        "includes the time to the first token; tpot is computed from the requests",
    ),
    Figure(
        "metrics.inter_token_latency_ms.successful.mean",
        None,
        "weighted by tokens per request; tpot is computed from the requests",
    ),
    *(
        Figure(f"metrics.{name}.successful.percentiles.{p}", None, _STEPS)
        for name in (*_MEANS, "time_per_output_token_ms", "inter_token_latency_ms")
        for p in ("p50", "p90", "p95", "p99")
    ),
    Figure("metrics.request_concurrency.successful.mean", None, "average requests in flight, not the limit"),
    Figure("metrics.output_tokens_per_iteration.successful.mean", None, "tokens per chunk, not per round"),
)
_NOTES = {
    "metadata.guidellm_version": "the tool's version, since 0.5",
    "config.constraints.max_requests": "num_prompts",
    "config.strategy.max_concurrency": "concurrency, if the strategy is throughput; until 0.3 args.strategy",
    "requests.*.response_metrics.speculative_decoding.num_spec_tokens": "num_speculative_tokens",
    "metrics.request_totals.errored, incomplete": "requests_failed, their sum",
    "requests.successful.output_metrics.total_tokens": "null if the server sends no usage: then output_tokens counts "
    "chunks, and all figures of tokens are left out",
    "requests.successful": ("the requests, without warm-up and cool-down; inter_token_latency_ms is tpot"),
    "requests.*.response_metrics.speculative_decoding": "num_drafts and all of acceptance, summed over requests",
    "requests.errored, incomplete": "failed requests, without latencies",
}


def _is_report(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("benchmarks"), list):
        return False
    metadata, benchmarks = value.get("metadata"), value["benchmarks"]
    is_of_benchmarks = bool(benchmarks) and all(has_keys(b, "metrics", "requests", "start_time") for b in benchmarks)
    return has_keys(metadata, "guidellm_version") or (metadata is None and is_of_benchmarks)


_SPECULATION = ("response_metrics", "speculative_decoding")


class _Timed(Record):
    start_s: Number | None = Field(None, alias="request_start_time")
    end_s: Number | None = Field(None, alias="request_end_time")

    def is_within(self, start_s: float | None, end_s: float | None) -> bool:
        """Return whether it ran in these seconds, GuideLLM's own condition for counting a request."""
        known = (self.start_s, self.end_s, start_s, end_s)
        return None not in known and self.end_s >= start_s and self.start_s <= end_s  # type: ignore[operator]


class _Request(_Timed):
    request_latency: Number | None = None  # seconds
    time_to_first_token_ms: Number | None = None
    inter_token_latency_ms: Number | None = None
    prompt_tokens: Count | None = None
    output_tokens: Count | None = None
    output: Text | None = None
    output_metrics: dict[str, Any] | None = None  # since 0.5
    num_spec_tokens: Count | None = at(*_SPECULATION, "num_spec_tokens")
    num_spec_steps: Count | None = at(*_SPECULATION, "num_spec_steps")
    num_draft_tokens: Count | None = at(*_SPECULATION, "num_draft_tokens")
    num_accepted_draft_tokens: Count | None = at(*_SPECULATION, "num_accepted_draft_tokens")
    acceptance_histogram: Numbers | None = at(*_SPECULATION, "acceptance_histogram")

    @property
    def counts_chunks(self) -> bool:
        """Return whether its output tokens are chunks: GuideLLM's substitute if the server sends no usage."""
        usage = self.output_metrics
        return self.output_tokens is not None and usage is not None and usage.get("total_tokens") is None


class _FailedRequest(_Timed):
    prompt_tokens: Count | None = None
    error: Any = either(("info", "error"), ("error",))


_Failed = Annotated[list[_FailedRequest], Field(fail_fast=True)]


class _Benchmark(Record):
    start_time: Number | None = None
    end_time: Number | None = None
    total: Count = either(("metrics", "request_totals", "successful"), ("request_totals", "successful"), default=...)
    total_errored: Count | None = either(("metrics", "request_totals", "errored"), ("request_totals", "errored"))
    total_incomplete: Count | None = either(
        ("metrics", "request_totals", "incomplete"), ("request_totals", "incomplete")
    )
    prefer_response_metrics: Flag | None = at("config", "prefer_response_metrics")
    strategy: Name = either(("config", "strategy", "type_"), ("args", "strategy", "type_"))
    max_concurrency: Count | None = either(
        ("config", "strategy", "max_concurrency"), ("args", "strategy", "max_concurrency")
    )
    limit: Any = either(
        ("config", "constraints", "max_requests", "args", "count"), ("config", "constraints", "max_requests", "max_num")
    )
    limit_index: Count | None = at("config", "constraints", "max_requests", "current_index")
    successful: Annotated[list[_Request], Field(fail_fast=True)] | None = at("requests", "successful")
    errored: _Failed | None = at("requests", "errored")
    incomplete: _Failed | None = at("requests", "incomplete")


class _Report(Record):
    version: Count = at("metadata", "version", default=1)
    guidellm_version: Name = at("metadata", "guidellm_version")


def _read(documents: Sequence[Document]) -> list[ImportedRun]:
    return [run for document in documents for run in _runs(whole(document))]


def _runs(report: Part) -> list[ImportedRun]:
    metadata = report.parse(_Report, "GuideLLM's report")
    if (version := metadata.version) not in _SUPPORTED:
        why = f"found version {version}; supported are versions {_SUPPORTED[0]} and {_SUPPORTED[-1]} of the report"
        raise report.document.error(("metadata", "version"), why)
    benchmarks = parts(report.document, report.content["benchmarks"], "benchmarks")
    return [_run(part, metadata.guidellm_version or _version(part)) for part in benchmarks]


def _version(benchmark: Part) -> str:
    """Return the versions that write such a benchmark into a report without a version."""
    return "0.4" if "config" in benchmark.content else "0.2 or 0.3"


def _run(part: Part, version: str) -> ImportedRun:
    owner = "a GuideLLM benchmark"
    benchmark, taken = part.parse(_Benchmark, owner), take(part, _FIGURES, owner)
    if benchmark.strategy == "synchronous":
        taken.columns["concurrency"] = 1
    if benchmark.strategy == "throughput":
        taken.columns["concurrency"] = benchmark.max_concurrency
    taken.columns.setdefault("num_prompts", _limit(benchmark))
    drafted = {request.num_spec_tokens for request in benchmark.successful or ()} - {None}
    taken.columns["num_speculative_tokens"] = drafted.pop() if len(drafted) == 1 else None
    if benchmark.total_errored is not None and benchmark.total_incomplete is not None:
        taken.metrics["requests_failed"] = benchmark.total_errored + benchmark.total_incomplete
    why = _why_not_servers(benchmark)
    requests = _all_requests(benchmark, taken, server_counts=not why)
    taken.drop(("completion_tokens", "output_tok_per_s", "total_tok_per_s", "prompt_tokens") if why else (), why)
    return build_run(
        FORMAT.name,
        part.document,
        part.content,
        taken,
        requests=requests,
        tool_version=version,
        place=f"benchmarks[{part.at[-1]}]",
    )


def _why_not_servers(benchmark: _Benchmark) -> str:
    """Return why the counts of tokens are not the server's; empty if they may be."""
    if benchmark.prefer_response_metrics is False:
        return "prefer_response_metrics was off: the client counted the tokens itself"
    if any(request.counts_chunks for request in benchmark.successful or ()):
        return "the server sent no usage: GuideLLM counted chunks, not tokens"
    return ""


def _limit(benchmark: _Benchmark) -> int | None:
    """Return the limit on requests; this benchmark's if the report lists several."""
    given, index = benchmark.limit, benchmark.limit_index or 0
    if isinstance(given, list):
        given = given[index] if index < len(given) else None
    is_count = isinstance(given, (int, float)) and not isinstance(given, bool) and 0 <= given <= LARGEST
    return int(given) if is_count and given == int(given) else None


def _all_requests(benchmark: _Benchmark, taken: Taken, *, server_counts: bool) -> ImportedRequests | None:
    """Return all requests; None if the report has only a sample, or none."""
    done, failed = benchmark.successful or [], [*(benchmark.errored or ()), *(benchmark.incomplete or ())]
    if len(done) != benchmark.total:
        window = (benchmark.start_time, benchmark.end_time)
        done = [request for request in done if request.is_within(*window)]
        failed = [request for request in failed if request.is_within(*window)]
    if benchmark.successful is None or len(done) != benchmark.total:
        taken.leave_out("requests", f"the report has {len(done)} of {benchmark.total} completed requests")
        return None
    taken.metrics |= _positions(done)
    requests = [_completed(index, request, server_counts=server_counts) for index, request in enumerate(done)]
    for request in failed:
        error = error_text(request.error, "it did not end")
        requests.append(ImportedRequest(len(requests), error, prompt_tokens=request.prompt_tokens))
    return ImportedRequests.of(requests)


def _completed(index: int, request: _Request, *, server_counts: bool) -> ImportedRequest:
    latency_s, tokens = request.request_latency, request.output_tokens if server_counts else None
    return ImportedRequest(
        index,
        ttft_ms=request.time_to_first_token_ms,
        tpot_ms=request.inter_token_latency_ms if tokens is not None and tokens > 1 else None,
        e2e_ms=None if latency_s is None else latency_s * 1000,
        prompt_tokens=request.prompt_tokens if server_counts else None,
        completion_tokens=tokens,
        output_text=request.output,
        spec_drafts=request.num_spec_steps,
        spec_draft_tokens=request.num_draft_tokens,
        spec_accepted_tokens=request.num_accepted_draft_tokens,
    )


def _positions(done: Sequence[_Request]) -> dict[str, Value]:
    """Return acceptance per position over all requests; empty if one of them does not record its rounds."""
    rounds: dict[int, int] = {}
    for request in done:
        counts = request.acceptance_histogram
        if counts is None or None in counts:
            return {}
        for length, count in enumerate(counts):
            rounds[length] = rounds.get(length, 0) + int(count or 0)
    return build.positions(rounds)


FORMAT = Format(
    "guidellm",
    "GuideLLM, benchmarks.json",
    "0.2 to 0.8.1, report versions 1 and 2",
    _is_report,
    _read,
    _FIGURES,
    _NOTES,
)
