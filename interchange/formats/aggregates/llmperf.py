"""llmperf: a summary, and beside it the individual responses of the same run. Times are seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pydantic import model_validator

from interchange.build import build_run
from interchange.fields import Figure, Format, Taken, has_keys, is_record, latencies_of, take
from interchange.json_reader import Document
from interchange.typed_json import Number, Part, Record, parse, whole
from warehouse.bundles.imported_run import ImportedRequest, ImportedRequests, ImportedRun

_OWNER, _OF_REQUESTS = "a summary of llmperf", "llmperf's individual responses"
_MS = 1000.0
_LATENCIES = {"ttft_s": "ttft", "end_to_end_latency_s": "e2e"}
_OWN_COUNT = "llmperf's own token count"
_LEFT_OUT = {
    "inter_token_latency_s": "includes the time to the first token; llmperf's own token count",
    "request_output_throughput_token_per_s": "a mean over requests, not of the run",
    "number_input_tokens": _OWN_COUNT,
    "number_output_tokens": _OWN_COUNT,
}
_STATISTICS = ("mean", "min", "max", "stddev")
_QUANTILES = ("p25", "p50", "p75", "p90", "p95", "p99")
_FIGURES: tuple[Figure, ...] = (
    Figure("model", "target"),
    Figure("num_concurrent_requests", "concurrency"),
    Figure("results_num_completed_requests", "requests_completed"),
    Figure("results_number_errors", "requests_failed"),
    Figure("results_num_completed_requests_per_min", "request_per_s", factor=1 / 60),
    Figure("results_mean_output_throughput_token_per_s", "output_tok_per_s", _OWN_COUNT),
    *latencies_of("results_{latency}_{statistic}", _LATENCIES, "", _MS, _STATISTICS),
    *latencies_of("results_{latency}_quantiles_{statistic}", _LATENCIES, "", _MS, _QUANTILES),
    *(
        Figure(f"results_{name}_{statistic}", None, why)
        for name, why in _LEFT_OUT.items()
        for statistic in (*_STATISTICS, *(f"quantiles_{quantile}" for quantile in _QUANTILES))
    ),
    Figure("results_error_rate", None, "no column; failed / all requests"),
    Figure("results_num_requests_started", None, "completed and failed ones"),
)
_NOTES = {
    "version": "the tool's version, 2023-08-31 in all files seen",
    "individual responses": "the requests: ttft and e2e, of the file with the summary's count and mean; others are a "
    "run without a summary",
    "mean_input_tokens, mean_output_tokens": "labels, as all other short values",
}
_NOT_LABELS = {*(figure.path for figure in _FIGURES), "version", "results_error_code_frequency"}


def _is_summary(value: object) -> bool:
    return has_keys(value, "version", "name", "model", "results_num_completed_requests")


def _is_responses(value: object) -> bool:
    keys = ("error_code", "ttft_s", "end_to_end_latency_s", "number_output_tokens")
    return isinstance(value, list) and is_record(value, *keys)


class _Response(Record):
    error_code: Any = None
    error_msg: Any = None
    ttft_s: Number | None = None
    end_to_end_latency_s: Number | None = None

    @model_validator(mode="before")
    @classmethod
    def _failed_has_no_figures(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("error_code") is not None:
            return {key: value.get(key) for key in ("error_code", "error_msg")}
        return value


def _read(documents: Sequence[Document]) -> list[ImportedRun]:
    """Return the runs of one folder: each summary with its responses, and responses that belong to none."""
    responses = [(document, _requests(document)) for document in documents if _is_responses(document.value)]
    runs: list[ImportedRun] = []
    for document in documents:
        if not _is_summary(document.value):
            continue
        part = whole(document)
        taken = take(part, _FIGURES, _OWNER, ("results_num_completed_requests",))
        own = next((pair for pair in responses if _reproduce(pair[1], taken)), None)
        if own is not None:
            responses.remove(own)
        runs.append(_run(part, taken, own))
    return runs + [_alone(document, requests) for document, requests in responses]


def _requests(document: Document) -> ImportedRequests:
    responses = parse(list[_Response], document, document.value, _OF_REQUESTS)
    return ImportedRequests.of([_request(index, response) for index, response in enumerate(responses)])


def _request(index: int, response: _Response) -> ImportedRequest:
    if response.error_code is not None:
        return ImportedRequest(index, str(response.error_msg or f"error {response.error_code}"))
    ttft_s, e2e_s = response.ttft_s, response.end_to_end_latency_s
    return ImportedRequest(
        index,
        ttft_ms=ttft_s * _MS if ttft_s else None,  # 0 is an answer without text
        e2e_ms=e2e_s * _MS if e2e_s else None,
    )


def _reproduce(requests: ImportedRequests, taken: Taken) -> bool:
    """Return whether the requests have the summary's count and mean latency."""
    done, mean_ms = requests.completed, taken.metrics.get("e2e_mean_ms")
    if len(done) != taken.metrics["requests_completed"] or not isinstance(mean_ms, float) or not len(done):
        return False
    return math.isclose(float(done.numbers("e2e_ms").mean()), mean_ms, rel_tol=1e-6)


def _run(part: Part, taken: Taken, own: tuple[Document, ImportedRequests] | None) -> ImportedRun:
    if own is None:
        taken.leave_out("requests", "the individual responses are not in the same folder")
    labels = part.labels([key for key in part.content if key not in _NOT_LABELS])
    return build_run(
        FORMAT.name,
        part.document,
        part.content,
        taken,
        requests=None if own is None else own[1],
        tool_version=part.labels(["version"]).get("version"),
        labels={**labels, "token_count": "client"},
        companions=[] if own is None else [own[0].file.source],
    )


def _alone(document: Document, requests: ImportedRequests) -> ImportedRun:
    taken = Taken()
    taken.leave_out("model", "the summary is not in the same folder")
    return build_run(FORMAT.name, document, document.value, taken, requests=requests)


FORMAT = Format(
    "llmperf",
    "llmperf, summary and individual responses",
    "2023-08-31",
    lambda value: _is_summary(value) or _is_responses(value),
    _read,
    _FIGURES,
    _NOTES,
    is_of_folder=True,
)
