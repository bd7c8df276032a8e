"""inference-perf: stage_N_lifecycle_metrics.json is a run; summary_lifecycle_metrics.json covers all stages, and is a
run only if no stage lies beside it. per_request_lifecycle_metrics.json has the requests of all stages. Seconds.

Until 0.4 the client noted a time for every line of the stream, also for empty ones and the last, and divided by their
number: nothing between tokens can be read from such reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interchange import build
from interchange.build import build_run
from interchange.fields import Figure, Format, Taken, has_keys, latencies_of, latency_columns, take
from interchange.formats import inference_perf_requests as per_request
from interchange.formats.inference_perf_requests import Request
from interchange.json_reader import Document
from interchange.typed_json import Number, Part, Record, at, whole
from lab.metrics.measure import Value
from warehouse.bundles.imported_run import ImportedRequests, ImportedRun

_OWNER = "a report of inference-perf"
_LATENCY = "successes.latency."
_CLIENT = "left out until 0.4, and if the client's token count differs from the server's"
_ROLE = "until 0.4 to the first event, perhaps a chat's role"
_LATENCIES = {
    "time_to_first_token": ("ttft", _ROLE),
    "time_per_output_token": ("tpot", _CLIENT),
    "request_latency": ("e2e", ""),
}
_STATISTICS = ("mean", "p1", "p5", "p10", "p25", "median", "p50", "p75", "p90", "p95", "p99")
_FIGURES: tuple[Figure, ...] = (
    Figure("load_summary.concurrency", "concurrency", "0 is none"),
    Figure("load_summary.requested_rate", "request_rate_rps", "if there is no concurrency"),
    Figure("load_summary.count", "num_prompts"),
    Figure("successes.count", "requests_completed"),
    Figure("failures.count", "requests_failed"),
    Figure("benchmark_time_seconds", "duration_s", "until 0.4 completed / requests_per_sec"),
    Figure(
        "successes.prompt_tokens.total",
        "prompt_tokens",
        "the server's count, unless a request fell back to the client's",
    ),
    Figure("successes.output_tokens.total", "completion_tokens", "likewise"),
    Figure("successes.throughput.requests_per_sec", "request_per_s"),
    Figure("successes.goodput_metrics.request_goodput", "goodput_request_per_s", "under the bounds in config.yaml"),
    Figure("successes.throughput.output_tokens_per_sec", None, "the client's own count"),
    Figure("successes.throughput.total_tokens_per_sec", None, "likewise"),
    *latencies_of(f"{_LATENCY}{{latency}}.{{statistic}}", _LATENCIES, "", 1000.0, _STATISTICS),
    Figure(
        f"{_LATENCY}inter_token_latency.mean",
        None,
        "gaps between chunks, with zeros: neither icl nor itl",
    ),
    Figure(f"{_LATENCY}normalized_time_per_output_token.mean", None, "includes the time to the first token"),
    Figure("load_summary.achieved_rate", None, "the rate of sending, not the requested one"),
)
_NOTES = {
    "successes.token_count_mismatches": "at 0, the tool's time_per_output_token is used",
    "successes.client_fallback_requests": "at 0, its token counts are used: they are the server's",
    "per_request_lifecycle_metrics.json": ("the requests, by stage; used if they reproduce the stage's means"),
    "per_request_lifecycle_metrics.json: request": "target, if equal for all requests",
    "per_request_lifecycle_metrics.json: info.response_metrics.chunk_times": "ttft, tpot, icl",
    "per_request_lifecycle_metrics.json: info.response_metrics.server_usage": "prompt_tokens, completion_tokens",
}


def _is_report(value: object) -> bool:
    if not isinstance(value, dict) or not all(isinstance(value.get(k), dict) for k in ("successes", "failures")):
        return False
    return "count" in _load(value)


def _not_a_run(value: object) -> str:
    """Recognise the server's metrics, which have the form of a report on the client's requests."""
    is_of_server = has_keys(value, "load_summary", "successes", "failures") and not _is_report(value)
    return "the server's metrics, not a run: import stage_N_lifecycle_metrics.json" if is_of_server else ""


def _stages(reports: Sequence[Document]) -> list[Document]:
    """Return the reports on whole stages; all reports if there are none. Raises NotAResultError for another report
    beside them, whose requests are among theirs.
    """
    stages = [document for document in reports if _is_stage(document)]
    for document in reports if stages else ():
        if document not in stages:
            raise document.not_a_result("a report on all stages, or on one adapter, next to reports on single stages")
    return sorted(stages or reports, key=lambda document: document.file.name)


def _is_stage(report: Document) -> bool:
    """Return whether the report is on one whole stage: until 0.1 only its name says so, and an adapter's never does."""
    name = report.file.name.rpartition("/")[2]
    return not name.startswith("adapter_") and (name.startswith("stage_") or "achieved_rate" in _load(report.value))


def _load(report: object) -> Mapping[str, object]:
    load = report.get("load_summary") if isinstance(report, dict) else None
    return load if isinstance(load, dict) else {}


class _Report(Record):
    mismatches: Number | None = at("successes", "token_count_mismatches")
    prompts_counted_here: Number | None = at("successes", "client_fallback_requests", "prompt")
    outputs_counted_here: Number | None = at("successes", "client_fallback_requests", "output")


def _read(documents: Sequence[Document]) -> list[ImportedRun]:
    """Return the runs of one folder: from its stages, else from its summary, else from its requests alone."""
    reports = _stages([document for document in documents if _is_report(document.value)])
    listed = [document for document in documents if per_request.detect(document.value)]
    if not reports:
        return [per_request.run(document) for document in listed]
    if len(listed) > 1:
        raise listed[1].error((), "a second file of requests for one folder: import them one by one")
    return _runs([whole(document) for document in reports], listed[0] if listed else None)


def _runs(parts: Sequence[Part], listed: Document | None) -> list[ImportedRun]:
    records = per_request.in_order(listed) if listed else []
    reports = [take(part, _FIGURES, _OWNER, ("successes.count",)) for part in parts]
    sent = [_number(taken, "requests_completed") + _number(taken, "requests_failed") for taken in reports]
    runs, start = [], 0
    for part, taken, count in zip(parts, reports, sent, strict=True):
        own = records[start : start + count] if sum(sent) == len(records) else []
        runs.append(_run(part, taken, own, listed))
        start += count
    return runs


def _number(taken: Taken, name: str) -> int:
    count = taken.metrics.get(name)
    return count if isinstance(count, int) else 0


def _run(part: Part, taken: Taken, records: Sequence[Request], listed: Document | None) -> ImportedRun:
    is_old = "benchmark_time_seconds" not in part.content
    build.add_duration(taken)
    if is_old:
        taken.drop(latency_columns("tpot"), "the client noted a time for every line of the stream, not for each token")
    _drop_client_counts(part.parse(_Report, _OWNER), taken)
    if "concurrency" in _load(part.content):  # of requests, or of sessions, whose rate is not that of requests
        taken.columns.pop("request_rate_rps", None)
    requests = _fitting(taken, per_request.requests(records))
    if requests is None:
        why = "no requests that fit this stage" if listed else "no per_request_lifecycle_metrics.json with it"
        taken.leave_out("requests", why)
    else:
        taken.columns["target"] = per_request.model(records)
    return build_run(
        FORMAT.name,
        part.document,
        part.content,
        taken,
        requests=requests,
        tool_version="before 0.5" if is_old else None,
        companions=[listed.file.source] if listed and requests is not None else (),
    )


def _drop_client_counts(report: _Report, taken: Taken) -> None:
    if report.mismatches != 0:
        taken.drop(latency_columns("tpot"), "divided by the client's own count of tokens, which is not the server's")
    why = "the client counted some of them itself, because the server did not"
    taken.drop(["prompt_tokens"] if report.prompts_counted_here != 0 else [], why)
    taken.drop(["completion_tokens"] if report.outputs_counted_here != 0 else [], why)


def _fitting(taken: Taken, requests: ImportedRequests) -> ImportedRequests | None:
    """Return the requests, or None if they do not reproduce the stage's count and mean times."""
    recomputed = build.of_requests(requests)
    same = [name for name in ("requests_completed", "ttft_mean_ms", "e2e_mean_ms") if name in taken.metrics]
    names: dict[str, Value] = {name: recomputed.get(name) for name in same}
    if not len(requests) or None in names.values() or build.disagreements(taken.metrics, names, "they"):
        return None
    return requests


FORMAT = Format(
    "inference-perf",
    "inference-perf, reports of stages and requests",
    "0.1 to 0.7.0",
    lambda value: _is_report(value) or per_request.detect(value),
    _read,
    _FIGURES,
    _NOTES,
    is_of_folder=True,
    not_a_run=_not_a_run,
)
