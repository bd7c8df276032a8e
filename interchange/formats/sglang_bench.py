"""SGLang's `bench_serving --output-file`: one JSON line per run, each appended to the last. Arrays are in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field

from interchange.build import build_run
from interchange.fields import (
    CHUNK_RATE,
    Figure,
    Format,
    Taken,
    has_keys,
    latencies_of,
    latency_columns,
    of_each_record,
    one_of,
    take,
)
from interchange.formats import request_arrays
from interchange.formats.request_arrays import RequestArrays
from interchange.formats.vllm_bench import forget_unknown_loop
from interchange.typed_json import Count, Number, OneLine, Part, at
from lab.study.methods import METHODS
from warehouse.bundles.imported_run import ImportedRequest, ImportedRequests, ImportedRun

_GAP = "gaps between chunks; left out for SGLang's own endpoint, whose versions differ"
_LATENCIES = {"ttft": ("ttft", ""), "tpot": ("tpot", ""), "itl": ("icl", _GAP), "e2e_latency": ("e2e", "")}
_METHODS = {method.engines["sglang"]: name for name, method in METHODS.items() if "sglang" in method.engines}
_OF_ONE_LENGTH = "if random_range_ratio is 1"
_FIGURES: tuple[Figure, ...] = (
    Figure("dataset_name", "dataset"),
    Figure("request_rate", "request_rate_rps", "Infinity is a closed loop"),
    Figure("max_concurrency", "concurrency", "unknown without a request_rate, and with a trace"),
    Figure("server_info.model_path", "target"),
    Figure("server_info.version", "engine_version"),
    Figure("server_info.speculative_algorithm", "method", type=one_of(_METHODS)),
    Figure("server_info.speculative_draft_model_path", "draft_model"),
    Figure("random_input_len", "input_tokens", _OF_ONE_LENGTH),
    Figure("random_output_len", "requested_output_tokens", _OF_ONE_LENGTH),
    Figure("num_prompts", "num_prompts", "of several processes"),
    Figure("completed", "requests_completed"),
    Figure("failed", "requests_failed", "of several processes"),
    Figure("duration", "duration_s"),
    Figure("total_input_tokens", "prompt_tokens"),
    Figure(
        "total_output_tokens",
        "completion_tokens",
        "the server's usage, else the requested number",
    ),
    *(
        Figure(f"{name}_retokenized", None, "recounted from the text")
        for name in ("total_output_tokens", "output_throughput", "total_throughput")
    ),
    Figure("cache_report.cache_hit_rate_pct", "prefix_cache_hit_rate", "percent, of --cache-report", 0.01),
    Figure("request_throughput", "request_per_s"),
    Figure("output_throughput", "output_tok_per_s"),
    Figure("total_throughput", "total_tok_per_s"),
    Figure("input_throughput", None, "no column; prompt_tokens / duration_s"),
    Figure("accept_length", None, "cumulative since the server's start"),
    Figure("concurrency", None, "average requests in flight, not the limit"),
    Figure("max_output_tokens_per_s", None, CHUNK_RATE),
    Figure("max_concurrent_requests", None, "counted per second, so higher than the requests in flight at once"),
    *latencies_of("{statistic}_{latency}_ms", _LATENCIES, statistics=("mean", "median", "std", "p90", "p95", "p99")),
)
_NOTES = {
    "server_info": "engine, if it is SGLang's; missing until 2025",
    "server_info.speculative_num_draft_tokens": (
        "num_speculative_tokens, less the verified one, for a chain (speculative_eagle_topk 1 or missing)"
    ),
    "server_info.tp_size, dp_size, quantization": "labels",
    "input_lens, output_lens, ttfts, itls, errors, generated_texts": ("the requests (--output-details)"),
}
_SERVER_LABELS = ("tp_size", "dp_size", "quantization")
#: Backends whose client divides a chunk's gap over its tokens in some versions only.
_DIVIDES_MAYBE = ("sglang", "sglang-native")
_OF_STREAMS = ("_ttft_ms", "_tpot_ms")
_NEEDED = ("completed", "duration", "total_output_tokens", "output_throughput", "mean_e2e_latency_ms")


class _Run(RequestArrays):
    backend: OneLine
    random_range_ratio: Number | None = None
    server_info: dict[str, Any] = Field({})
    verified_tokens: Count | None = at("server_info", "speculative_num_draft_tokens")
    branches: Count | None = at("server_info", "speculative_eagle_topk")


def _run(part: Part, place: str) -> ImportedRun:
    owner, content = "a result of SGLang's bench_serving", part.content
    if came_whole := _came_whole(content):
        part = Part(part.document, {key: content[key] for key in content if not key.endswith(_OF_STREAMS)}, part.at)
    taken, run = take(part, _FIGURES, owner, _NEEDED), part.parse(_Run, owner)
    if came_whole:
        taken.leave_out("ttft, tpot", "a time per token is below 0: most answers came as a whole")
    forget_unknown_loop(part, taken)
    _forget_drawn_lengths(taken, run.random_range_ratio)
    if "model_path" in run.server_info:  # vLLM answers this page, too
        taken.columns["engine"] = "sglang"
    if run.verified_tokens and run.branches in (None, 1):
        taken.columns["num_speculative_tokens"] = run.verified_tokens - 1
    requests = request_arrays.read(part, run)
    if requests is None:
        taken.leave_out("requests", "the run was saved without --output-details")
    else:  # the file has no request's end, only its last chunk; the run's e2e figures stay as printed by SGLang
        requests = [replace(request, e2e_ms=None) for request in requests]
        if came_whole:
            requests = [replace(request, ttft_ms=None, tpot_ms=None) for request in requests]
    if run.backend in _DIVIDES_MAYBE:
        requests = requests and list(map(_divided, requests))
        taken.drop(latency_columns("icl"), "this version may have divided the gaps over the tokens of a chunk")
    return build_run(
        FORMAT.name,
        part.document,
        content,
        taken,
        requests=None if requests is None else ImportedRequests.of(requests),
        place=place,
        labels=part.labels(("tag", "backend")) | Part(part.document, run.server_info).labels(_SERVER_LABELS),
    )


def _came_whole(content: Mapping[str, object]) -> bool:
    """Return whether the mean or the median answer came as a whole: its client notes the first token a little later
    than the end.
    """
    per_token = (content.get(f"{statistic}_tpot_ms") for statistic in ("mean", "median"))
    return any(isinstance(value, float) and value < 0 for value in per_token)


def _forget_drawn_lengths(taken: Taken, range_ratio: float | None) -> None:
    """Forget the configured lengths unless every prompt is random and has exactly these."""
    if not str(taken.columns.get("dataset")).startswith("random") or range_ratio != 1:
        for name in ("input_tokens", "requested_output_tokens"):
            taken.columns.pop(name, None)


def _divided(request: ImportedRequest) -> ImportedRequest:
    """Keep gaps only if there is one for each token but the first; otherwise they may be of chunks or tokens."""
    per_token = request.chunk_gaps_ms is not None and len(request.chunk_gaps_ms) + 1 == request.completion_tokens
    return replace(request, chunk_gaps_ms=None, token_gaps_ms=request.chunk_gaps_ms if per_token else None)


FORMAT = Format(
    "sglang-bench-serving",
    "SGLang `bench_serving`, JSONL",
    "0.4 to 0.5.23",
    lambda value: has_keys(value, *_NEEDED, "backend", "total_output_tokens_retokenized"),
    of_each_record(_run),
    _FIGURES,
    _NOTES,
)
