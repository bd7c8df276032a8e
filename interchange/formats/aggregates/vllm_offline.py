"""`vllm bench latency` and `vllm bench throughput`: the library without a server. Their files name no model."""

from __future__ import annotations

from collections.abc import Mapping

from interchange.build import disagreements
from interchange.fields import OTHER_PERCENTILE, Figure, Taken
from interchange.formats.aggregates.declared import declared
from interchange.typed_json import Numbers, Part, Record, all_known

_BATCH = "of a whole batch"
_SECONDS = 1000.0
_NAMES_NO_MODEL = {"the file's name": "not read, though it may name the model: give labels"}


class _Latencies(Record):
    latencies: Numbers


def _compare(part: Part, taken: Taken) -> Mapping[str, str]:
    latencies_s = all_known(part.parse(_Latencies, "a result of vllm bench latency").latencies)
    if latencies_s:
        mean_ms = sum(latencies_s) / len(latencies_s) * _SECONDS
        taken.doubts += disagreements(taken.metrics, {"e2e_mean_ms": mean_ms}, "its own latencies")
    return {}


LATENCY = declared(
    "vllm-bench-latency",
    "`vllm bench latency`",
    "vLLM of 2025-08",
    (
        Figure("avg_latency", "e2e_mean_ms", _BATCH, _SECONDS),
        *(Figure(f"percentiles.{q}", f"e2e_p{q}_ms", _BATCH, _SECONDS) for q in (50, 90, 95, 99)),
        *(Figure(f"percentiles.{q}", None, OTHER_PERCENTILE) for q in (10, 25, 75)),
    ),
    {"latencies": "one per repetition of the batch; the mean is compared with avg_latency", **_NAMES_NO_MODEL},
    keys=("avg_latency", "latencies", "percentiles"),
    needed=("avg_latency",),
    adjust=_compare,
)
THROUGHPUT = declared(
    "vllm-bench-throughput",
    "`vllm bench throughput`",
    "vLLM of 2025, made by its source: no public one was found",
    (
        Figure("num_requests", "requests_completed"),
        Figure("elapsed_time", "duration_s"),
        Figure("requests_per_second", "request_per_s"),
        Figure("tokens_per_second", "total_tok_per_s", "prompts and answers"),
        Figure("total_num_tokens", None, "prompts and answers together"),
    ),
    _NAMES_NO_MODEL,
    keys=("elapsed_time", "num_requests", "total_num_tokens", "requests_per_second", "tokens_per_second"),
    needed=("elapsed_time", "num_requests"),
)
