"""GuideLLM's benchmarks.json, version 2: one object with a list of benchmarks, each of them a run."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from lab.metrics.measure import Value
from warehouse.importers import recompute
from warehouse.importers.build import assembled
from warehouse.importers.fields import Field, Taken, take
from warehouse.importers.json_node import Node, top
from warehouse.importers.json_reader import Document
from warehouse.importers.model import ImportedRequest, ImportedRun, LeftOut, Scalar

_TOOL = "guidellm"
SUPPORTED = 2
_STEPS = "its percentiles take the nearest value and do not interpolate; they are computed anew of the requests"
_MEANS = {"time_to_first_token_ms": ("ttft", 1.0), "request_latency": ("e2e", 1000.0)}
FIELDS: tuple[Field, ...] = (
    Field("metrics.request_totals.successful", "requests_completed"),
    Field("duration", "duration_s"),
    Field("metrics.prompt_token_count.successful.total_sum", "prompt_tokens"),
    Field("metrics.output_token_count.successful.total_sum", "completion_tokens"),
    Field("metrics.requests_per_second.successful.mean", "request_per_s"),
    Field("metrics.output_tokens_per_second.successful.mean", "output_tok_per_s"),
    Field("metrics.tokens_per_second.successful.mean", "total_tok_per_s"),
    *(
        Field(f"metrics.{name}.successful.mean", f"{ours}_mean_ms", "seconds" if factor > 1 else "", factor)
        for name, (ours, factor) in _MEANS.items()
    ),
    Field(
        "metrics.time_per_output_token_ms.successful.mean",
        None,
        "the time to the first token is in it, so it is no tpot; that is computed of the requests",
    ),
    Field(
        "metrics.inter_token_latency_ms.successful.mean",
        None,
        "what is called tpot here, but each request weighs as its tokens do; tpot is computed of the requests",
    ),
    *(
        Field(f"metrics.{name}.successful.percentiles.{p}", None, _STEPS)
        for name in (*_MEANS, "time_per_output_token_ms", "inter_token_latency_ms")
        for p in ("p50", "p90", "p95", "p99")
    ),
    Field("metrics.request_concurrency.successful.mean", None, "requests in flight on average, which is no limit"),
    Field("metrics.output_tokens_per_iteration.successful.mean", None, "tokens a chunk, not a round"),
)
ALSO_READ: dict[str, str] = {
    "metadata.guidellm_version": "the tool's version",
    "config.backend.model": "target",
    "config.backend.request_format": "endpoint",
    "config.strategy": "concurrency (streams; 1 where it is synchronous) or request_rate_rps",
    "config.constraints.max_requests": "num_prompts",
    "requests.*.response_metrics.speculative_decoding.num_spec_tokens": "num_speculative_tokens",
    "start_time": "started_at",
    "metrics.request_totals.errored, incomplete": "requests_failed, their sum",
    "requests.successful": "the requests: time_to_first_token_ms, request_latency, inter_token_latency_ms (as tpot)",
    "requests.*.response_metrics.speculative_decoding": "num_drafts and all of acceptance, summed over requests",
    "requests.errored, incomplete": "failed requests, without latencies",
}
_FORMATS = {"/v1/completions": "completions", "/v1/chat/completions": "chat"}


def recognises(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("benchmarks"), list):
        return False
    metadata = value.get("metadata")
    return isinstance(metadata, dict) and "guidellm_version" in metadata


def read(documents: Sequence[Document]) -> list[ImportedRun]:
    return [run for document in documents for run in _runs(top(document))]


def _runs(report: Node) -> list[ImportedRun]:
    metadata = report.node("metadata") or report
    if (found := metadata.count("version")) != SUPPORTED:
        raise metadata.error("version", f"found version {found}; supported is version {SUPPORTED} of GuideLLM's report")
    return [
        _run(benchmark, f"benchmarks[{place}]", metadata.name("guidellm_version"))
        for place, benchmark in enumerate(report.nodes("benchmarks"))
    ]


def _run(benchmark: Node, place: str, version: str | None) -> ImportedRun:
    metrics, config = benchmark.node("metrics"), benchmark.node("config")
    if metrics is None or config is None:
        raise benchmark.error("metrics" if metrics is None else "config", "this is missing in a GuideLLM benchmark")
    totals = metrics.node("request_totals")
    if totals is None or totals.count("successful") is None:
        raise metrics.error("request_totals", "this is missing in a GuideLLM benchmark")
    taken = take(benchmark, FIELDS)
    failed = [totals.count("errored"), totals.count("incomplete")]
    if None not in failed:
        taken.metrics["requests_failed"] = sum(count or 0 for count in failed)
    server_counts = config.flag("prefer_response_metrics")
    requests = _all_requests(benchmark, totals, taken, server_counts=server_counts is not False)
    if server_counts is False:
        _drop_client_counts(taken)
    return assembled(
        _TOOL,
        benchmark.document,
        benchmark.content,
        taken,
        columns=_columns(benchmark, config),
        requests=requests,
        tool_version=version,
        place=place,
    )


def _drop_client_counts(taken: Taken) -> None:
    """Tokens that the client counted are not the server's."""
    names = ("completion_tokens", "output_tok_per_s", "total_tok_per_s", "prompt_tokens")
    taken.drop(names, "prefer_response_metrics was off: the client counted the tokens itself")


def _columns(benchmark: Node, config: Node) -> dict[str, Scalar]:
    backend, strategy = config.node("backend"), config.node("strategy")
    kind = strategy.name("type_") if strategy else None
    return {
        "target": backend.name("model") if backend else None,
        "endpoint": _FORMATS.get((backend.name("request_format") if backend else None) or ""),
        "concurrency": 1 if kind == "synchronous" else strategy.count("streams") if strategy else None,
        "request_rate_rps": strategy.number("rate") if strategy else None,
        "num_prompts": _asked(config),
        "num_speculative_tokens": _drafted(benchmark),
        "started_at": started_at(benchmark.number("start_time")),
    }


def _asked(config: Node) -> int | None:
    """The limit on requests; where each benchmark of the report has its own, the one for this."""
    if (at := config.at("constraints.max_requests.args")) is None or (arguments := at[0].node(at[1])) is None:
        return None
    if not isinstance(arguments.content.get("count"), list):
        return arguments.count("count")
    counts, place = arguments.numbers("count") or [], at[0].count("current_index") or 0
    found = counts[place] if place < len(counts) else None
    return int(found) if found is not None and found.is_integer() else None


def _drafted(benchmark: Node) -> int | None:
    """Tokens drafted a round, where all requests tell the same."""
    lists = benchmark.node("requests")
    specs = [spec for one in (lists.nodes("successful") if lists else []) if (spec := _speculation(one))]
    told = {spec.count("num_spec_tokens") for spec in specs}
    return told.pop() if len(told) == 1 else None


def started_at(epoch_s: float | None) -> str | None:
    """UTC, ISO 8601; None of a moment that is before 2000 or after 2100, and so is none."""
    if epoch_s is None or not 946_684_800 <= epoch_s < 4_102_444_800:
        return None
    return datetime.fromtimestamp(epoch_s, UTC).isoformat()


def _all_requests(benchmark: Node, totals: Node, taken: Taken, *, server_counts: bool) -> list[ImportedRequest] | None:
    """None where the report has only a sample of them, or none."""
    lists = benchmark.node("requests")
    done = lists.nodes("successful") if lists else []
    if lists is None or len(done) != totals.count("successful"):
        why = f"the report has {len(done)} of {totals.count('successful')} completed requests"
        taken.left_out.append(LeftOut("requests", why))
        return None
    taken.metrics |= _positions(done)
    requests = [_completed(index, one, server_counts=server_counts) for index, one in enumerate(done)]
    failed = [one for status in ("errored", "incomplete") for one in lists.nodes(status)]
    return requests + [_failed(len(requests) + place, one) for place, one in enumerate(failed)]


def _completed(index: int, one: Node, *, server_counts: bool) -> ImportedRequest:
    latency_s, tokens = one.number("request_latency"), one.count("output_tokens") if server_counts else None
    spec = _speculation(one)
    return ImportedRequest(
        index,
        ttft_ms=one.number("time_to_first_token_ms"),
        tpot_ms=one.number("inter_token_latency_ms") if tokens is not None and tokens > 1 else None,
        e2e_ms=None if latency_s is None else latency_s * 1000,
        prompt_tokens=one.count("prompt_tokens") if server_counts else None,
        completion_tokens=tokens,
        output_text=one.text("output"),
        spec_drafts=spec.count("num_spec_steps") if spec else None,
        spec_draft_tokens=spec.count("num_draft_tokens") if spec else None,
        spec_accepted_tokens=spec.count("num_accepted_draft_tokens") if spec else None,
    )


def _failed(index: int, one: Node) -> ImportedRequest:
    info = one.node("info")
    error = info.content.get("error") if info else None
    return ImportedRequest(index, str(error) if error else "it did not end", prompt_tokens=one.count("prompt_tokens"))


def _speculation(one: Node) -> Node | None:
    response = one.node("response_metrics")
    return response.node("speculative_decoding") if response else None


def _positions(done: Sequence[Node]) -> dict[str, Value]:
    """Rounds by the number of accepted tokens, added over the requests; nothing where one does not tell."""
    rounds: dict[int, int] = {}
    for one in done:
        spec = _speculation(one)
        counts = spec.numbers("acceptance_histogram") if spec else None
        if counts is None or None in counts:
            return {}
        for length, count in enumerate(counts):
            rounds[length] = rounds.get(length, 0) + int(count or 0)
    return recompute.positions(rounds)
