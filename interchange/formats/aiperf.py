"""AIPerf: profile_export_aiperf.json (a run's figures) and profile_export.jsonl (its requests), alone or together.

AIPerf counts tokens by tokenising the text again, and also records the server's counts. Drafthouse uses the server's,
so throughput and TPOT may differ from what AIPerf printed. The summary of AIPerf 0.1 has its figures under `records`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from interchange import build
from interchange.build import build_run
from interchange.fields import Figure, Format, Taken, has_keys, latencies_of, latency_columns, one_of, take
from interchange.formats import aiperf_requests
from interchange.formats.aiperf_requests import RequestLines
from interchange.json_reader import Document
from interchange.typed_json import Count, Flag, Name, Number, Part, Record, at, either, whole
from lab.metrics.measure import Value
from warehouse.bundles.imported_run import ImportedRun

#: Known versions of the summary's schema; a later one may give the same names other meanings.
_SUPPORTED = tuple(f"1.{minor}" for minor in range(5))
_RETOKENISED = "AIPerf's own token count; the server's is used"
_OF_SERVER = "left out if AIPerf's token count differs from the server's"
_OF_REQUESTS = "a mean over requests, not over rounds"
_LATENCIES = {
    "time_to_first_token": ("ttft", ""),
    "inter_token_latency": ("tpot", _OF_SERVER),
    "inter_chunk_latency": ("icl", ""),
    "request_latency": ("e2e", ""),
}
_HISTOGRAM = "pooled_spec_decode_acceptance_histogram"
_MOST_DRAFTED = 64
_ENDPOINTS = {"completions": "completions", "chat": "chat"}
_FIGURES: tuple[Figure, ...] = (
    Figure("input_config.endpoint.type", "endpoint", type=one_of(_ENDPOINTS)),
    Figure("input_config.endpoint.extra.ignore_eos", "ignore_eos"),
    Figure("input_config.endpoint.extra.temperature", "temperature"),
    Figure("request_count.avg", "requests_completed", "0 if all requests failed"),
    Figure("error_request_count.avg", "requests_failed", "0 if request_error_rate is 0 or error_summary is empty"),
    Figure("benchmark_duration.avg", "duration_s"),
    Figure("total_usage_prompt_tokens.avg", "prompt_tokens"),
    Figure("total_usage_completion_tokens.avg", "completion_tokens"),
    Figure("request_throughput.avg", "request_per_s"),
    Figure("goodput.avg", "goodput_request_per_s"),
    Figure("total_spec_decode_steps.avg", "num_drafts"),
    Figure("total_draft_tokens.avg", "num_draft_tokens"),
    Figure("total_accepted_draft_tokens.avg", "num_accepted_tokens"),
    Figure("spec_decode_overall_draft_acceptance_rate.avg", "acceptance_rate", factor=0.01),
    Figure("spec_decode_token_weighted_acceptance_length.avg", "acceptance_length"),
    Figure("spec_decode_draft_acceptance_rate.avg", None, _OF_REQUESTS),
    Figure("spec_decode_acceptance_length.avg", None, _OF_REQUESTS),
    Figure("output_token_throughput.avg", None, _RETOKENISED),
    Figure("total_token_throughput.avg", None, _RETOKENISED),
    Figure("total_osl.avg", None, _RETOKENISED),
    Figure("total_isl.avg", None, _RETOKENISED),
    Figure("output_token_throughput_per_user.avg", None, "no column; about 1000 / tpot"),
    Figure("effective_concurrency.avg", None, "average requests in flight, not the limit"),
    *latencies_of("{latency}.{statistic}", _LATENCIES, statistics=("avg", "std", "p50", "p90", "p95", "p99")),
)
_NOTES = {
    "aiperf_version": "the tool's version, with a schema_version",
    "input_config.models": "target; until schema 1.2 endpoint.model_names",
    "input_config.phases": (
        "concurrency, request_rate_rps and num_prompts of the measured phase; until schema 1.2 loadgen"
    ),
    "input_config.datasets": "requested_output_tokens, if equal for all requests",
    _HISTOGRAM: "acceptance_per_position",
    "profile_export.jsonl: spec_decode_acceptance.num_spec_tokens": "num_speculative_tokens",
    "was_cancelled": "a doubt, if true",
    "start_time": "a label: it has no time zone; started_at comes from the requests",
    "profile_export.jsonl": "the requests, without warm-up",
    "profile_export.jsonl: usage_completion_tokens": "completion_tokens; tpot is decode_duration / (it - 1)",
}


def _is_summary(value: object) -> bool:
    """Return whether the file is a summary: files of server metrics have their figures under one key."""
    with_version = has_keys(value, "aiperf_version", "schema_version", "input_config")
    before = has_keys(value, "input_config", "was_cancelled", "error_summary")
    return (with_version or before) and not has_keys(value, "metrics") and not _is_of_several_runs(value)


def _is_of_several_runs(value: object) -> bool:
    return isinstance(value, dict) and has_keys(value.get("metadata"), "aggregation_type")


def _not_a_run(value: object) -> str:
    """Recognise the other files of a run of AIPerf."""
    if has_keys(value, "aiperf_version", "schema_version", "metrics"):
        return "AIPerf's metrics of the server, not a run: import profile_export_aiperf.json"
    if _is_of_several_runs(value):
        return "AIPerf's statistics over several runs: import each run's profile_export_aiperf.json"
    return "AIPerf's prompts, not a run: import profile_export_aiperf.json" if _is_inputs(value) else ""


def _is_inputs(value: object) -> bool:
    sessions = value.get("data") if isinstance(value, dict) else None
    return isinstance(sessions, list) and bool(sessions) and has_keys(sessions[0], "session_id", "payloads")


class _Version(Record):
    schema_version: Name = None


class _Latency(Record):
    unit: Literal["ms"]


class _Model(Record):
    name: Name = None


class _Phase(Record):
    kind: Name = None
    name: Name = None
    type: Name = None
    concurrency: Count | None = None
    requests: Count | None = None
    rate: Number | None = None


class _LoadGenerator(Record):
    """The phase that is measured, in files of earlier versions."""

    arrival_pattern: Name = either(("arrival_pattern",), ("request_rate_mode",))
    concurrency: Count | None = None
    request_count: Count | None = None
    request_rate: Number | None = None


class _Dataset(Record):
    mean: Number | None = at("osl", "mean")
    stddev: Any = at("osl", "stddev")


class _Summary(Record):
    aiperf_version: Name = None
    error_rate: Number | None = at("request_error_rate", "avg")
    error_summary: Any = None
    was_cancelled: Flag | None = None
    histogram: dict[str, Count | None] | None = at(_HISTOGRAM)
    time_to_first_token: _Latency | None = None
    inter_token_latency: _Latency | None = None
    inter_chunk_latency: _Latency | None = None
    request_latency: _Latency | None = None
    models: tuple[_Model, ...] | None = at("input_config", "models", "items")
    model_names: tuple[Name, ...] | None = at("input_config", "endpoint", "model_names")
    phases: tuple[_Phase, ...] | None = at("input_config", "phases")
    loadgen: _LoadGenerator | None = at("input_config", "loadgen")
    datasets: tuple[_Dataset, ...] | None = at("input_config", "datasets")


def _read(documents: Sequence[Document]) -> list[ImportedRun]:
    """Return a run for each summary, with the request lines that fit it, and a run for lines that fit none."""
    groups: dict[str, list[Document]] = {}
    for document in documents:
        if aiperf_requests.detect(document.value):
            groups.setdefault(document.file.name, []).append(document)
    lines = {name: aiperf_requests.request_lines(group) for name, group in groups.items()}
    runs = [_run(whole(document), lines) for document in documents if _is_summary(document.value)]
    return runs + [aiperf_requests.run(left) for left in lines.values()]


def _run(part: Part, lines: dict[str, RequestLines]) -> ImportedRun:
    """Return the run of a summary; the lines that fit it are removed from `lines`."""
    owner, content = "a summary of AIPerf", part.content
    version = part.parse(_Version, owner).schema_version
    if version is not None and version not in _SUPPORTED:
        raise part.error("schema_version", f"found {version}; supported are {_SUPPORTED[0]} to {_SUPPORTED[-1]}")
    if isinstance(records := content.get("records"), dict):
        part = Part(part.document, {**content, **records}, part.at)
    summary, taken = part.parse(_Summary, owner), take(part, _FIGURES, owner)
    _complete(part, summary, taken)
    fitting = next((name for name, group in lines.items() if _fits(taken, group)), None)
    group = lines.pop(fitting) if fitting is not None else None
    if group is None:
        taken.leave_out("requests", "no profile_export.jsonl of this run was imported with it")
    else:
        taken.columns |= aiperf_requests.columns(group)
    return build_run(
        FORMAT.name,
        part.document,
        content,
        taken,
        requests=aiperf_requests.requests(group) if group else None,
        tool_version=summary.aiperf_version or "before schema 1.0",
        labels=part.labels(("benchmark_id", "start_time")),
        companions=[group.source] if group else (),
    )


def _complete(part: Part, summary: _Summary, taken: Taken) -> None:
    """Add metrics that follow from several figures of the file, and drop those that contradict the server."""
    if "requests_failed" not in taken.metrics and (summary.error_rate == 0 or summary.error_summary == []):
        taken.metrics["requests_failed"] = 0
    if taken.metrics.get("requests_failed"):  # AIPerf leaves out a count of 0
        taken.metrics.setdefault("requests_completed", 0)
    if "requests_completed" not in taken.metrics:
        raise part.error("request_count", "this is missing in a summary of AIPerf")
    _describe(taken, summary)
    if summary.was_cancelled:
        taken.doubts.append("AIPerf was interrupted before the end of the run")
    taken.metrics |= _positions(part, summary, taken)
    server, own = taken.metrics.get("completion_tokens"), taken.printed.get("total_osl.avg")
    if server is None or own != server:
        why = "AIPerf divided by its own count of tokens"
        shown = f"{why}, {own:g}; the server counted {server}" if own is not None and server is not None else why
        taken.drop(latency_columns("tpot"), shown)


def _positions(part: Part, summary: _Summary, taken: Taken) -> dict[str, Value]:
    rounds: dict[int, int] = {}
    for key, count in (summary.histogram or {}).items():
        if not (key.isascii() and key.isdigit() and len(key) < 4):
            raise part.document.error((*part.at, _HISTOGRAM, key), "a number of accepted tokens is expected here")
        rounds[int(key)] = count or 0
    if rounds and (drafted := _drafted_per_round(taken)) is not None:
        rounds.setdefault(drafted, 0)  # positions that were drafted but never accepted
    return build.positions(rounds)


def _drafted_per_round(taken: Taken) -> int | None:
    """Return the tokens drafted in each round; None if rounds differed."""
    rounds, drafted = taken.printed.get("total_spec_decode_steps.avg"), taken.printed.get("total_draft_tokens.avg")
    if not rounds or drafted is None or drafted % rounds or drafted > rounds * _MOST_DRAFTED:
        return None
    return int(drafted / rounds)


def _fits(taken: Taken, group: RequestLines) -> bool:
    """Return whether these are the summary's own requests: as many, with the same mean times as far as it has them."""
    recomputed: Mapping[str, Value] = build.of_requests(aiperf_requests.requests(group))
    counts = (
        ("requests_completed",) if taken.metrics["requests_completed"] else ("requests_completed", "requests_failed")
    )
    same = (*counts, *(name for name in ("ttft_mean_ms", "e2e_mean_ms") if name in taken.metrics))
    both = [(taken.metrics.get(name), recomputed.get(name)) for name in same]
    return all(
        isinstance(printed, (int, float))
        and isinstance(computed, (int, float))
        and abs(printed - computed) <= 1e-6 * printed
        for printed, computed in both
    )


def _describe(taken: Taken, summary: _Summary) -> None:
    phase = _measured(summary)
    names = [model.name for model in summary.models or ()] or summary.model_names or ()
    # A schedule of its own is neither a rate nor a closed loop.
    is_known = phase.rate is not None or phase.type is None or phase.type.startswith("concurrency")
    taken.columns |= {
        "target": names[0] if len(names) == 1 else None,
        "concurrency": phase.concurrency if is_known else None,
        "num_prompts": phase.requests,
        "request_rate_rps": phase.rate,
        "requested_output_tokens": _output_tokens(summary.datasets or ()),
    }


def _measured(summary: _Summary) -> _Phase:
    """Return the single measured phase; an empty one if there are several, or none."""
    if (load := summary.loadgen) is not None and not summary.phases:
        pattern, requests = load.arrival_pattern, load.request_count
        return _Phase(type=pattern, concurrency=load.concurrency, requests=requests, rate=load.request_rate)
    phases = [phase for phase in summary.phases or () if "profiling" in (phase.kind, phase.name)]
    return phases[0] if len(phases) == 1 else _Phase()


def _output_tokens(datasets: Sequence[_Dataset]) -> int | None:
    """Return the number of output tokens that every request specified; None if requests differed."""
    lengths = datasets[0] if len(datasets) == 1 else _Dataset()
    return None if lengths.stddev or lengths.mean is None or not lengths.mean.is_integer() else int(lengths.mean)


FORMAT = Format(
    "aiperf",
    "AIPerf, profile_export_aiperf.json and profile_export.jsonl",
    "0.1 to 0.13.0, schemas 1.0 to 1.4 and before",
    lambda value: _is_summary(value) or aiperf_requests.detect(value),
    _read,
    _FIGURES,
    _NOTES,
    is_of_folder=True,
    not_a_run=_not_a_run,
)
