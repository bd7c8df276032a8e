"""genai-bench: a JSON file per run, with experiment_metadata.json beside it. Either names the time unit, which has been
a choice since September 2025 (0.0.3) and was the second before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from interchange.build import build_run
from interchange.fields import Figure, Format, Taken, has_keys, latencies_of, take
from interchange.json_reader import Document
from interchange.typed_json import Count, Name, Number, Part, Record, Text, at, either, error_text, parse, whole
from warehouse.bundles.imported_run import ImportedRequest, ImportedRequests, ImportedRun

_UNITS_MS = {"s": 1000.0, "ms": 1.0}
_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "e2e_latency": "e2e"}
_SUCCESS = (None, 200)
_LABELS = ("scenario", "iteration_type", "batch_size")
_NEEDED = ("aggregated_metrics.run_duration", "aggregated_metrics.num_completed_requests")
_FIXED_LENGTHS = re.compile(r"D\((\d{1,7}),(\d{1,7})\)")
_STATISTICS = ("mean", "stddev", "p25", "p50", "p75", "p90", "p95", "p99")


def _figures(factor: float) -> tuple[Figure, ...]:
    aggregated = "aggregated_metrics."
    stats = f"{aggregated}stats."
    return (
        Figure(f"{aggregated}num_concurrency", "concurrency", "if iteration_type is num_concurrency"),
        Figure(f"{aggregated}num_completed_requests", "requests_completed"),
        Figure(f"{aggregated}num_error_requests", "requests_failed"),
        Figure(f"{aggregated}run_duration", "duration_s", "always seconds"),
        Figure(f"{stats}num_input_tokens.sum", "prompt_tokens"),
        Figure(f"{stats}num_output_tokens.sum", "completion_tokens", "the server's usage, if sent"),
        Figure(f"{aggregated}requests_per_second", "request_per_s"),
        Figure(f"{aggregated}mean_output_throughput_tokens_per_s", "output_tok_per_s"),
        Figure(f"{aggregated}mean_total_tokens_throughput_tokens_per_s", "total_tok_per_s"),
        Figure(f"{aggregated}mean_input_throughput_tokens_per_s", None, "no column; prompt_tokens / duration_s"),
        *latencies_of(f"{stats}{{latency}}.{{statistic}}", _LATENCIES, "", factor, _STATISTICS),
        Figure(f"{stats}output_latency.mean", None, "no column; e2e - ttft"),
        Figure(f"{stats}output_inference_speed.mean", None, "no column; about 1000 / tpot"),
        Figure(f"{stats}output_throughput.mean", None, "a mean over requests, not of the run"),
    )


_FIGURES: tuple[Figure, ...] = _figures(1000.0)
_Lower = Annotated[Name, AfterValidator(lambda name: name and name.lower())]
_OF_METADATA: tuple[Figure, ...] = (
    Figure("model", "target"),
    Figure("server_engine", "engine", "in small letters", type=_Lower),
    Figure("server_version", "engine_version"),
    Figure("additional_request_params.ignore_eos", "ignore_eos"),
    Figure("additional_request_params.temperature", "temperature"),
)
_NOTES = {
    "_time_unit": ("unit of all latencies, else metrics_time_unit of experiment_metadata.json; refused without either"),
    "aggregated_metrics.scenario": "input_tokens and requested_output_tokens, if it is D(input,output)",
    "individual_request_metrics": "the requests",
    **{f"experiment_metadata.json: {figure.path}": f"{figure.becomes}" for figure in _OF_METADATA},
    "experiment_metadata.json: benchmark_version": "the tool's version",
    "experiment_metadata.json: server_gpu_type, server_gpu_count": "hardware",
}


def _is_run(value: object) -> bool:
    return has_keys(value, "aggregated_metrics", "individual_request_metrics")


def _is_metadata(value: object) -> bool:
    return has_keys(value, "benchmark_version", "traffic_scenario", "api_backend", "task")


class _Request(Record):
    error_code: Any = None
    error_message: Text | None = None
    num_input_tokens: Count | None = None
    num_output_tokens: Count | None = None
    ttft: Number | None = None
    tpot: Number | None = None
    e2e_latency: Number | None = None

    @model_validator(mode="before")
    @classmethod
    def _failed_has_no_figures(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("error_code") not in _SUCCESS:
            return {key: value[key] for key in ("error_code", "error_message") if key in value}
        return value


class _Run(Record):
    time_unit: Name = Field(None, alias="_time_unit")
    num_requests: Count | None = at("aggregated_metrics", "num_requests")
    scenario: Name = at("aggregated_metrics", "scenario")
    iteration_type: Name = at("aggregated_metrics", "iteration_type")
    individual_request_metrics: Annotated[tuple[_Request, ...], Field(fail_fast=True)] = ()


class _Metadata(Record):
    benchmark_version: Name = None
    time_unit: Name = either(("metrics_time_unit",), ("time_unit",), default="s")
    gpu_type: Name = Field(None, alias="server_gpu_type")
    gpu_count: Name = Field(None, alias="server_gpu_count")

    @property
    def hardware(self) -> dict[str, str]:
        """Return the label of the hardware; none if the kind of GPU was not given."""
        count = f"{self.gpu_count}x " if self.gpu_count else ""
        return {"hardware": f"{count}{self.gpu_type}"} if self.gpu_type else {}


def _read(documents: Sequence[Document]) -> list[ImportedRun]:
    """Return the runs of one folder, each with the values from the folder's metadata file."""
    described = [whole(document) for document in documents if _is_metadata(document.value)]
    if len(described) > 1:
        raise described[1].error("benchmark_version", "a second metadata file for one folder: import them one by one")
    beside = described[0] if described else None
    return [_run(whole(document), beside) for document in documents if _is_run(document.value)]


def _run(part: Part, beside: Part | None) -> ImportedRun:
    owner, of_metadata = "a result of genai-bench", "genai-bench's metadata"
    run = part.parse(_Run, owner)
    metadata = beside.parse(_Metadata, of_metadata) if beside else None
    factor = _ms_in_unit(part, run.time_unit or (metadata.time_unit if metadata else None))
    taken = take(part, _figures(factor), owner, _NEEDED)
    _describe(taken, run)
    if beside:
        taken.columns |= take(beside, _OF_METADATA, of_metadata).columns
    requests = [_request(index, request, factor) for index, request in enumerate(run.individual_request_metrics)]
    is_complete = len(requests) == run.num_requests
    if not is_complete:
        taken.leave_out("requests", f"the file has {len(requests)} of its requests")
    aggregated = Part(part.document, parse(dict[str, object], part.document, part.content["aggregated_metrics"], ""))
    return build_run(
        FORMAT.name,
        part.document,
        part.content,
        taken,
        requests=ImportedRequests.of(requests) if is_complete else None,
        tool_version=metadata.benchmark_version if metadata else None,
        labels=aggregated.labels(_LABELS) | (metadata.hardware if metadata else {}),
        companions=[beside.document.file.source] if beside else (),
    )


def _ms_in_unit(part: Part, unit: str | None) -> float:
    if unit not in _UNITS_MS:
        why = f"the time unit is {unit}; supported are s and ms"
        raise part.error("_time_unit", why if unit else "no time unit: import experiment_metadata.json with it")
    return _UNITS_MS[unit]


def _describe(taken: Taken, run: _Run) -> None:
    if run.iteration_type != "num_concurrency":
        taken.columns.pop("concurrency", None)
    if lengths := _FIXED_LENGTHS.fullmatch(run.scenario or ""):
        taken.columns |= {"input_tokens": int(lengths[1]), "requested_output_tokens": int(lengths[2])}


def _request(index: int, request: _Request, factor: float) -> ImportedRequest:
    if request.error_code not in _SUCCESS:
        return ImportedRequest(index, error_text(request.error_message, f"error {request.error_code}"))
    tokens = request.num_output_tokens
    return ImportedRequest(
        index,
        ttft_ms=None if request.ttft is None else request.ttft * factor,
        tpot_ms=None if request.tpot is None or tokens is None or tokens < 2 else request.tpot * factor,
        e2e_ms=None if request.e2e_latency is None else request.e2e_latency * factor,
        prompt_tokens=request.num_input_tokens,
        completion_tokens=tokens,
    )


FORMAT = Format(
    "genai-bench",
    "genai-bench, with its experiment_metadata.json",
    "0.0.1 to 0.0.5",
    lambda value: _is_run(value) or _is_metadata(value),
    _read,
    _FIGURES,
    _NOTES,
    is_of_folder=True,
)
