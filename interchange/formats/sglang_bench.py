"""SGLang's `bench_serving --output-file`: one JSON line per run, each appended to the last. Arrays are in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from interchange.build import build_run
from interchange.fields import CHUNK_RATE, STD, Figure, latency_columns, statistics_of, take
from interchange.formats.request_arrays import RequestArrays, gaps_s, refuse_other_lengths, request
from interchange.formats.vllm_bench import RequestRate, unknown_loop
from interchange.json_reader import Document
from interchange.typed_json import Count, Name, Number, OneLine, Part, whole
from warehouse.bundles.imported_run import ImportedRequest, ImportedRequests, ImportedRun, LeftOut, Scalar

_STATISTICS = ("mean", "p90", "p95", "p99")
_GAP = "gaps between chunks; left out for SGLang's own endpoint, whose versions differ in dividing them over tokens"
_LATENCIES = {"ttft": ("ttft", ""), "tpot": ("tpot", ""), "itl": ("icl", _GAP), "e2e_latency": ("e2e", "")}
_TOOL = "sglang-bench-serving"
FIELDS: tuple[Figure, ...] = (
    Figure("completed", "requests_completed"),
    Figure("duration", "duration_s"),
    Figure("total_input_tokens", "prompt_tokens"),
    Figure(
        "total_output_tokens",
        "completion_tokens",
        "the server's usage, or the requested number if the server sends none",
    ),
    Figure("total_output_tokens_retokenized", None, "recounted from the text; the server's count is used"),
    Figure("request_throughput", "request_per_s"),
    Figure("output_throughput", "output_tok_per_s"),
    Figure("total_throughput", "total_tok_per_s"),
    Figure("input_throughput", None, "no column; prompt_tokens / duration_s"),
    Figure("accept_length", None, "cumulative since the server started, and other runs are in it"),
    Figure("concurrency", None, "average requests in flight, not the limit; max_concurrency is the limit"),
    Figure("max_output_tokens_per_s", None, CHUNK_RATE),
    Figure("max_concurrent_requests", None, "counted per second, so higher than the requests in flight at once"),
    *(
        figure
        for name, (ours, words) in _LATENCIES.items()
        for figure in statistics_of(f"{{}}_{name}_ms", ours, words, statistics=_STATISTICS)
    ),
    *(Figure(f"median_{name}_ms", f"{ours}_p50_ms", words) for name, (ours, words) in _LATENCIES.items()),
    *(Figure(f"std_{name}_ms", None, STD) for name in _LATENCIES),
)
PASSTHROUGH: dict[str, str] = {
    "dataset_name": "dataset",
    "request_rate": "request_rate_rps; Infinity is a closed loop",
    "max_concurrency": "concurrency",
    "random_input_len": "input_tokens, for random prompts of one length: random_range_ratio is 1",
    "random_output_len": "requested_output_tokens, likewise",
    "input_lens, output_lens, ttfts, itls, errors, generated_texts": (
        "the requests (--output-details); failed ones have no latency, although the file says 0.0"
    ),
}
#: Backends whose client divides a chunk's gap over its tokens in some versions only.
_DIVIDES_MAYBE = ("sglang", "sglang-native")
_NEEDED = ("backend", "completed", "duration", "total_output_tokens", "output_throughput", "mean_e2e_latency_ms")


def detect(value: object) -> bool:
    return isinstance(value, dict) and all(key in value for key in (*_NEEDED, "total_output_tokens_retokenized"))


def read(documents: Sequence[Document]) -> list[ImportedRun]:
    return [_run(document) for document in documents]


class _Run(RequestArrays):
    backend: OneLine
    completed: Count
    duration: Number
    total_output_tokens: Count
    output_throughput: Number
    mean_e2e_latency_ms: Number
    dataset_name: Name = None
    max_concurrency: Count | None = None
    request_rate: RequestRate = None
    random_input_len: Count | None = None
    random_output_len: Count | None = None
    random_range_ratio: Number | None = None


def _run(document: Document) -> ImportedRun:
    part = whole(document)
    run = part.parse(_Run, "a result of SGLang's bench_serving")
    taken, requests = take(part, FIELDS), _requests(part, run)
    if requests is None:
        taken.left_out.append(LeftOut("requests", "the run was saved without --output-details"))
    elif run.backend in _DIVIDES_MAYBE:
        requests = list(map(_divided, requests))
    if run.backend in _DIVIDES_MAYBE:
        taken.drop(latency_columns("icl"), "this version may have divided the gaps over the tokens of a chunk")
    return build_run(
        _TOOL,
        document,
        part.content,
        taken,
        columns=_columns(run) | unknown_loop(part),
        requests=None if requests is None else ImportedRequests.of(requests),
        place=f"line {document.line}" if document.line > 1 else "",
        labels=part.labels(("tag", "backend")),
    )


def _columns(run: _Run) -> dict[str, Scalar]:
    is_random = run.dataset_name is not None and run.dataset_name.startswith("random")
    of_one_length = is_random and run.random_range_ratio == 1  # else lengths are drawn from this share of it on
    return {
        "dataset": run.dataset_name,
        "concurrency": run.max_concurrency,
        "request_rate_rps": run.request_rate,
        "input_tokens": run.random_input_len if of_one_length else None,
        "requested_output_tokens": run.random_output_len if of_one_length else None,
    }


def _requests(part: Part, run: _Run) -> list[ImportedRequest] | None:
    ttfts, itls, errors, inputs, outputs = run.ttfts, run.itls, run.errors, run.input_lens, run.output_lens
    if ttfts is None or itls is None or errors is None or inputs is None or outputs is None:
        return None
    refuse_other_lengths(part, run, RequestArrays)
    texts, gaps = run.generated_texts, gaps_s(itls)
    return [
        _without_end(
            request(
                index,
                error=str(errors[index]) if errors[index] else None,
                sent_s=None,
                ttft_s=ttfts[index],
                gaps_s=gaps[index],
                latency_s=None,
                lengths=(inputs[index], outputs[index]),
                text=texts[index] if texts else None,
            )
        )
        for index in range(len(ttfts))
    ]


def _without_end(request: ImportedRequest) -> ImportedRequest:
    """The file has no end of a request, only its last chunk; the run's e2e figures stay as printed by SGLang."""
    return replace(request, e2e_ms=None)


def _divided(request: ImportedRequest) -> ImportedRequest:
    """Keep gaps only if there is one per token but the first; otherwise they may be of chunks or tokens."""
    per_token = request.chunk_gaps_ms is not None and len(request.chunk_gaps_ms) + 1 == request.completion_tokens
    return replace(request, chunk_gaps_ms=None, token_gaps_ms=request.chunk_gaps_ms if per_token else None)
