"""genai-bench: a JSON file a run, and experiment_metadata.json beside it. The time unit stands in either."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from warehouse.importers.build import assembled
from warehouse.importers.fields import OTHER_PERCENTILE, STD, Field, statistics_of, take
from warehouse.importers.json_node import Node, top
from warehouse.importers.json_reader import Document
from warehouse.importers.model import ImportedRequest, ImportedRun, LeftOut, Scalar

_TOOL = "genai-bench"
_UNITS_MS = {"s": 1000.0, "ms": 1.0}
_LATENCIES = {"ttft": "ttft", "tpot": "tpot", "e2e_latency": "e2e"}
_SUCCESS = (None, 200)
_FIXED_LENGTHS = re.compile(r"D\((\d{1,7}),(\d{1,7})\)")


def _fields(factor: float) -> tuple[Field, ...]:
    aggregated = "aggregated_metrics."
    stats = f"{aggregated}stats."
    return (
        Field(f"{aggregated}num_completed_requests", "requests_completed"),
        Field(f"{aggregated}num_error_requests", "requests_failed"),
        Field(f"{aggregated}run_duration", "duration_s", "always seconds"),
        Field(f"{stats}num_input_tokens.sum", "prompt_tokens"),
        Field(f"{stats}num_output_tokens.sum", "completion_tokens", "the server's usage, where it sends one"),
        Field(f"{aggregated}requests_per_second", "request_per_s"),
        Field(f"{aggregated}mean_output_throughput_tokens_per_s", "output_tok_per_s"),
        Field(f"{aggregated}mean_total_tokens_throughput_tokens_per_s", "total_tok_per_s"),
        Field(f"{aggregated}mean_input_throughput_tokens_per_s", None, "no column; prompt_tokens / duration_s"),
        *(
            one
            for name, ours in _LATENCIES.items()
            for one in statistics_of(f"{stats}{name}.{{}}", ours, "in the file's time unit", factor)
        ),
        *(Field(f"{stats}{name}.stddev", None, STD) for name in _LATENCIES),
        *(Field(f"{stats}{name}.p{q}", None, OTHER_PERCENTILE) for name in _LATENCIES for q in (25, 75)),
        Field(f"{stats}output_latency.mean", None, "no column; e2e - ttft"),
        Field(f"{stats}output_inference_speed.mean", None, "no column; about 1000 / tpot"),
        Field(f"{stats}output_throughput.mean", None, "a mean over requests, not of the run"),
    )


FIELDS: tuple[Field, ...] = _fields(1000.0)
ALSO_READ: dict[str, str] = {
    "_time_unit": "unit of all latencies; else metrics_time_unit of experiment_metadata.json; without it refused",
    "aggregated_metrics.num_concurrency": "concurrency",
    "aggregated_metrics.scenario": "input_tokens and requested_output_tokens, where it is D(input,output)",
    "individual_request_metrics": "the requests; those with an error code have no latency",
    "experiment_metadata.json: model": "target",
    "experiment_metadata.json: benchmark_version": "the tool's version",
    "experiment_metadata.json: server_engine, server_version": "engine (in small letters), engine_version",
    "experiment_metadata.json: additional_request_params": "ignore_eos, temperature",
    "experiment_metadata.json: max_requests_per_run": "nothing: more requests may be sent, so it is no num_prompts",
}


def recognises(value: object) -> bool:
    return isinstance(value, dict) and "aggregated_metrics" in value and "individual_request_metrics" in value


def is_metadata(value: object) -> bool:
    keys = ("benchmark_version", "traffic_scenario", "api_backend", "task")
    return isinstance(value, dict) and all(key in value for key in keys)


def read(documents: Sequence[Document]) -> list[ImportedRun]:
    """The runs of one folder, with what its metadata file says of all of them."""
    described = [top(document) for document in documents if is_metadata(document.value)]
    if len(described) > 1:
        raise described[1].error("benchmark_version", "a second metadata file for one folder: import them one by one")
    return [
        _run(top(document), described[0] if described else None) for document in documents if recognises(document.value)
    ]


def _run(node: Node, metadata: Node | None) -> ImportedRun:
    aggregated = node.node("aggregated_metrics")
    if aggregated is None or not aggregated.has("run_duration", "num_completed_requests", "stats"):
        raise node.error("aggregated_metrics", "run_duration, num_completed_requests or stats is missing here")
    factor = _ms_in_unit(node, metadata)
    taken = take(node, _fields(factor))
    requests = _requests(node, factor)
    if len(requests) != aggregated.count("num_requests"):
        taken.left_out.append(LeftOut("requests", f"the file has {len(requests)} of its requests"))
    run = assembled(
        _TOOL,
        node.document,
        node.content,
        taken,
        columns=_columns(aggregated) | (_described(metadata) if metadata else {}),
        requests=requests if len(requests) == aggregated.count("num_requests") else None,
        tool_version=metadata.name("benchmark_version") if metadata else None,
        labels=aggregated.labels(("scenario", "iteration_type", "batch_size")),
    )
    return replace(run, companions=(metadata.document.file.source,)) if metadata else run


def _ms_in_unit(node: Node, metadata: Node | None) -> float:
    unit = node.name("_time_unit") or (metadata.name("metrics_time_unit") if metadata else None)
    if unit not in _UNITS_MS:
        why = f"the time unit is {unit}; supported are s and ms"
        raise node.error("_time_unit", why if unit else "no time unit: import experiment_metadata.json with it")
    return _UNITS_MS[unit]


def _columns(aggregated: Node) -> dict[str, Scalar]:
    lengths = _FIXED_LENGTHS.fullmatch(aggregated.name("scenario") or "")
    is_closed_loop = aggregated.name("iteration_type") == "num_concurrency"
    return {
        "concurrency": aggregated.count("num_concurrency") if is_closed_loop else None,
        "input_tokens": int(lengths[1]) if lengths else None,
        "requested_output_tokens": int(lengths[2]) if lengths else None,
    }


def _described(metadata: Node) -> dict[str, Scalar]:
    extra, engine = metadata.node("additional_request_params"), metadata.name("server_engine")
    return {
        "target": metadata.name("model"),
        "engine": engine.lower() if engine else None,
        "engine_version": metadata.name("server_version"),
        "ignore_eos": extra.flag("ignore_eos") if extra else None,
        "temperature": extra.number("temperature") if extra else None,
    }


def _requests(node: Node, factor: float) -> list[ImportedRequest]:
    return [_request(index, one, factor) for index, one in enumerate(node.nodes("individual_request_metrics"))]


def _request(index: int, one: Node, factor: float) -> ImportedRequest:
    if one.content.get("error_code") not in _SUCCESS:
        return ImportedRequest(index, one.text("error_message") or f"error {one.content['error_code']}")
    tokens = one.count("num_output_tokens")
    ttft, tpot, e2e = (one.number(name) for name in ("ttft", "tpot", "e2e_latency"))
    return ImportedRequest(
        index,
        ttft_ms=None if ttft is None else ttft * factor,
        tpot_ms=None if tpot is None or tokens is None or tokens < 2 else tpot * factor,
        e2e_ms=None if e2e is None else e2e * factor,
        prompt_tokens=one.count("num_input_tokens"),
        completion_tokens=tokens,
    )
