"""TensorRT-LLM's `trtllm-bench`, the file of --report_json. All of its requests are sent at once."""

from __future__ import annotations

from collections.abc import Mapping

from interchange.fields import Figure, Taken, statistics_of
from interchange.formats.aggregates.declared import declared
from interchange.typed_json import Name, Number, Part, Record, at

_QUANTILES = ("p50", "p90", "p95", "p99")
_PREFILL = "counts the prefill as a round with a draft"
_FIGURES: tuple[Figure, ...] = (
    Figure("engine.model", "target"),
    Figure("engine.version", "engine_version"),
    Figure("request_info.num_requests", "requests_completed"),
    Figure("performance.total_latency_ms", "duration_s", "", 0.001),
    Figure("performance.request_throughput_req_s", "request_per_s"),
    Figure("performance.system_output_throughput_tok_s", "output_tok_per_s"),
    Figure("performance.system_total_throughput_tok_s", "total_tok_per_s"),
    Figure("performance.avg_request_latency_ms", "e2e_mean_ms"),
    *statistics_of("performance.request_latency_percentiles_ms.{}", "e2e", statistics=_QUANTILES),
    Figure("streaming_metrics.avg_ttft_ms", "ttft_mean_ms"),
    *statistics_of("streaming_metrics.ttft_percentiles.{}", "ttft", statistics=_QUANTILES),
    Figure("streaming_metrics.avg_tpot_ms", "tpot_mean_ms"),
    *statistics_of("streaming_metrics.tpot_percentiles.{}", "tpot", statistics=_QUANTILES),
    Figure("decoding_stats.acceptance_length_percentiles.average", None, f"a mean over requests, and {_PREFILL}"),
    Figure("decoding_stats.draft_acceptance_rate_percentiles.average", None, f"a mean over requests, and {_PREFILL}"),
    Figure("decoding_stats.num_draft_tokens_percentiles.average", None, f"a mean over requests; {_PREFILL}"),
    Figure("decoding_stats.num_accepted_draft_tokens_percentiles.average", None, "a mean over requests"),
    Figure("performance.output_throughput_per_user_tok_s", None, "a mean over requests, with the prefill"),
    Figure("performance.output_throughput_per_gpu_tok_s", None, "no column; output_tok_per_s / GPUs"),
    Figure("streaming_metrics.token_output_speed_tok_s", None, "no column; about 1000 / tpot"),
    Figure("request_info.avg_num_concurrent_requests", None, "average requests in flight, not the limit"),
    Figure("request_info.avg_input_length", None, "a mean of lengths"),
    Figure("request_info.avg_output_length", None, "a mean of lengths"),
    Figure("world_info.issue_rate", None, "the rate at which requests were sent"),
)
_NOTES = {
    "engine.version": "the tool's version, too",
    "machine.name, world_info.world_size": "a label hardware",
    "engine, world_info, decoding_stats.mode": "labels: backend, precision, parallelism, kind of draft",
}


class _Report(Record):
    mode: Name = at("decoding_stats", "mode")
    gpu: Name = at("machine", "name")
    gpus: Number | None = at("world_info", "world_size")


def _adjust(part: Part, taken: Taken) -> Mapping[str, str]:
    report = part.parse(_Report, "a report of trtllm-bench")
    taken.columns["engine"] = "tensorrt_llm"
    labels = {"decoding_mode": report.mode or ""}
    if report.gpu:
        labels["hardware"] = f"{report.gpus:g}x {report.gpu}" if report.gpus else report.gpu
    for group in ("engine", "world_info"):
        inner = part.content.get(group)
        if isinstance(inner, dict):
            named = Part(part.document, inner, (group,))
            labels |= named.labels([key for key in inner if key not in ("model", "model_path", "engine_dir")])
    return {name: label for name, label in labels.items() if label}


FORMAT = declared(
    "trtllm-bench",
    "trtllm-bench, --report_json",
    "TensorRT-LLM 1.x, made by its source: no public one was found",
    _FIGURES,
    _NOTES,
    keys=("engine", "world_info", "request_info", "performance"),
    needed=("request_info.num_requests",),
    adjust=_adjust,
)
