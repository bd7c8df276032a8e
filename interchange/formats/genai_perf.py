"""genai-perf, AIPerf's predecessor: profile_export_genai_perf.json, a run's figures.

It tokenises the text itself and records neither the server's counts nor the duration, and no request that failed.
"""

from __future__ import annotations

from collections.abc import Sequence

from interchange import build
from interchange.build import build_run
from interchange.fields import Figure, Format, has_keys, latencies_of, one_of, take
from interchange.json_reader import Document
from interchange.typed_json import Name, Record, either, whole
from warehouse.bundles.imported_run import ImportedRun

_OWN_TOKENS = "genai-perf's own token count"
_LATENCIES = {"time_to_first_token": "ttft", "request_latency": "e2e"}
_STATISTICS = ("avg", "p50", "p90", "p95", "p99")
_UNTIL_2501 = "until 25.01"
_ENDPOINTS = {"completions": "completions", "chat": "chat"}
_FIGURES: tuple[Figure, ...] = (
    Figure("input_config.endpoint.type", "endpoint", type=one_of(_ENDPOINTS)),
    Figure("input_config.endpoint_type", "endpoint", _UNTIL_2501, type=one_of(_ENDPOINTS)),
    Figure("input_config.perf_analyzer.stimulus.concurrency", "concurrency"),
    Figure("input_config.concurrency", "concurrency", _UNTIL_2501),
    Figure("input_config.perf_analyzer.stimulus.request_rate", "request_rate_rps"),
    Figure("input_config.request_rate", "request_rate_rps", _UNTIL_2501),
    Figure("request_count.avg", "requests_completed"),
    Figure("request_throughput.avg", "request_per_s"),
    Figure("request_goodput.avg", "goodput_request_per_s", "under the bounds in input_config"),
    *latencies_of("{latency}.{statistic}", _LATENCIES, statistics=_STATISTICS),
    *latencies_of("{latency}.{statistic}", _LATENCIES, statistics=("std", "p1", "p5", "p10", "p25", "p75")),
    *(Figure(f"inter_token_latency.{statistic}", None, _OWN_TOKENS) for statistic in _STATISTICS),
    Figure("output_token_throughput.avg", None, _OWN_TOKENS),
    Figure("output_sequence_length.avg", None, _OWN_TOKENS),
    Figure("input_sequence_length.avg", None, _OWN_TOKENS),
)
_NOTES = {
    "input_config.model_names": f"target, if it is one model; input_config.model {_UNTIL_2501}",
    "request_count, request_throughput": "duration_s, their quotient",
}


class _Summary(Record):
    model_names: tuple[Name, ...] = either(("input_config", "model_names"), ("input_config", "model"), default=())
    time_unit: Name = either(("time_to_first_token", "unit"), ("request_latency", "unit"))


def _is_summary(value: object) -> bool:
    config = value.get("input_config") if isinstance(value, dict) else None
    is_of_tool = has_keys(config, "model_names", "perf_analyzer") or has_keys(config, "model", "service_kind")
    return is_of_tool and has_keys(value, "request_latency", "request_throughput")


def _read(documents: Sequence[Document]) -> list[ImportedRun]:
    return [_run(document) for document in documents]


def _run(document: Document) -> ImportedRun:
    part, owner = whole(document), "a summary of genai-perf"
    summary, taken = part.parse(_Summary, owner), take(part, _FIGURES, owner)
    if summary.time_unit != "ms":
        raise part.error("request_latency", f"its unit is {summary.time_unit}; supported is ms")
    taken.columns["target"] = summary.model_names[0] if len(summary.model_names) == 1 else None
    build.add_duration(taken)
    taken.leave_out("requests", "genai-perf's summary has none")
    return build_run(FORMAT.name, document, part.content, taken)


FORMAT = Format(
    "genai-perf",
    "genai-perf, profile_export_genai_perf.json",
    "24.08 to 25.12",
    _is_summary,
    _read,
    _FIGURES,
    _NOTES,
)
