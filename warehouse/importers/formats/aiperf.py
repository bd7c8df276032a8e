"""AIPerf: profile_export_aiperf.json (a run's figures) and profile_export.jsonl (a line a request), alone or together.

AIPerf counts tokens by tokenising the text again; the server's own counts stand beside them. Drafthouse takes the
server's, so throughput and TPOT may differ from what AIPerf printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lab.metrics.measure import Value
from warehouse.importers import recompute
from warehouse.importers.build import assembled
from warehouse.importers.fields import STD, Field, Taken, latency_columns, statistics_of, take
from warehouse.importers.formats import aiperf_requests
from warehouse.importers.json_node import Node, top
from warehouse.importers.json_reader import Document
from warehouse.importers.model import ImportedRun, LeftOut, Scalar

_TOOL = "aiperf"
#: Versions of the summary's schema that were seen; a higher number may mean something else by the same name.
SUPPORTED = tuple(f"1.{minor}" for minor in range(5))
_RETOKENISED = "AIPerf tokenises the text again; the server's own count is taken"
_OF_SERVER = "left out where the server counted other tokens than AIPerf, which divides by its own count"
_OF_REQUESTS = "a mean over requests; over rounds it is another number"
_LATENCIES = {
    "time_to_first_token": ("ttft", ""),
    "inter_token_latency": ("tpot", _OF_SERVER),
    "inter_chunk_latency": ("icl", ""),
    "request_latency": ("e2e", ""),
}
_MOST_DRAFTED = 64
_QUANTILES = ("p50", "p90", "p95", "p99")
FIELDS: tuple[Field, ...] = (
    Field("request_count.avg", "requests_completed"),
    Field("error_request_count.avg", "requests_failed", "0 where request_error_rate is 0"),
    Field("benchmark_duration.avg", "duration_s"),
    Field("total_usage_prompt_tokens.avg", "prompt_tokens"),
    Field("total_usage_completion_tokens.avg", "completion_tokens"),
    Field("request_throughput.avg", "request_per_s"),
    Field("goodput.avg", "goodput_request_per_s"),
    Field("total_spec_decode_steps.avg", "num_drafts"),
    Field("total_draft_tokens.avg", "num_draft_tokens"),
    Field("total_accepted_draft_tokens.avg", "num_accepted_tokens"),
    Field("spec_decode_overall_draft_acceptance_rate.avg", "acceptance_rate", "percent made a fraction", 0.01),
    Field("spec_decode_token_weighted_acceptance_length.avg", "acceptance_length", "the bonus token counts, as here"),
    Field("spec_decode_draft_acceptance_rate.avg", None, _OF_REQUESTS),
    Field("spec_decode_acceptance_length.avg", None, _OF_REQUESTS),
    Field("output_token_throughput.avg", None, _RETOKENISED),
    Field("total_token_throughput.avg", None, _RETOKENISED),
    Field("total_osl.avg", None, _RETOKENISED),
    Field("total_isl.avg", None, _RETOKENISED),
    Field("output_token_throughput_per_user.avg", None, "no column; about 1000 / tpot"),
    Field("effective_concurrency.avg", None, "requests in flight on average, which is no limit"),
    *(Field(f"{name}.avg", f"{ours}_mean_ms", words) for name, (ours, words) in _LATENCIES.items()),
    *(
        one
        for name, (ours, words) in _LATENCIES.items()
        for one in statistics_of(f"{name}.{{}}", ours, words, statistics=_QUANTILES)
    ),
    *(Field(f"{name}.std", None, STD) for name in _LATENCIES),
)
ALSO_READ: dict[str, str] = {
    "aiperf_version": "the tool's version",
    "input_config.models": "target",
    "input_config.endpoint": "endpoint; ignore_eos and temperature of its extra inputs",
    "input_config.phases": "concurrency, request_rate_rps and num_prompts of the phase that is measured",
    "input_config.datasets": "requested_output_tokens, where each asked for the same",
    "pooled_spec_decode_acceptance_histogram": "acceptance_per_position",
    "profile_export.jsonl: spec_decode_acceptance.num_spec_tokens": "num_speculative_tokens",
    "start_time": "a label: local time without a zone; started_at comes from the lines of requests",
    "profile_export.jsonl": "the requests; those of a warm-up are left out, failed ones have no latency",
    "profile_export.jsonl: usage_completion_tokens": "completion_tokens; tpot is decode_duration over it",
}


def recognises(value: object) -> bool:
    """Its files of server metrics begin alike, but have their figures under one key."""
    keys = ("aiperf_version", "schema_version", "input_config")
    return isinstance(value, dict) and all(key in value for key in keys) and "metrics" not in value


def is_request(value: object) -> bool:
    return aiperf_requests.recognises(value)


def read(documents: Sequence[Document]) -> list[ImportedRun]:
    """One run for each summary, with the lines of requests that fit it; one for lines that fit none."""
    lines: dict[str, list[Document]] = {}
    for document in documents:
        if is_request(document.value):
            lines.setdefault(document.file.name, []).append(document)
    runs = [_run(document, lines) for document in documents if recognises(document.value)]
    return runs + [aiperf_requests.run(left) for left in lines.values()]


def _run(document: Document, lines: dict[str, list[Document]]) -> ImportedRun:
    node = top(document)
    found = node.name("schema_version")
    if found not in SUPPORTED:
        raise node.error("schema_version", f"found {found}; supported are {SUPPORTED[0]} to {SUPPORTED[-1]}")
    if not node.has("request_count", "benchmark_duration"):
        raise node.error("request_count", "this or benchmark_duration is missing in a summary of AIPerf")
    for name in _LATENCIES:
        inner = node.node(name)
        if inner is not None and inner.content.get("unit") != "ms":
            raise inner.error("unit", "ms is expected here")
    taken = take(node, FIELDS)
    _complete(node, taken)
    fitting = next((name for name, group in lines.items() if _fits(taken, group)), None)
    group = lines.pop(fitting) if fitting is not None else []
    if not group:
        taken.left_out.append(LeftOut("requests", "no profile_export.jsonl of this run was imported with it"))
    run = assembled(
        _TOOL,
        document,
        node.content,
        taken,
        columns=_columns(node) | aiperf_requests.columns(group),
        requests=aiperf_requests.requests(group) if group else None,
        tool_version=node.name("aiperf_version"),
        labels=node.labels(("benchmark_id", "start_time")),
    )
    return replace(run, companions=(group[0].file.source,)) if group else run


def _complete(node: Node, taken: Taken) -> None:
    """What needs more than one figure of the file."""
    if "requests_failed" not in taken.metrics and _single(node, "request_error_rate") == 0:
        taken.metrics["requests_failed"] = 0
    taken.metrics |= _positions(node)
    server, own = taken.metrics.get("completion_tokens"), _single(node, "total_osl")
    if server is None or own != server:
        why = "AIPerf divided by its own count of tokens"
        shown = f"{why}, {own:g}; the server counted {server}" if own is not None and server is not None else why
        taken.drop(latency_columns("tpot"), shown)


def _single(node: Node, name: str) -> float | None:
    inner = node.node(name)
    return inner.number("avg") if inner else None


def _positions(node: Node) -> dict[str, Value]:
    inner = node.node("pooled_spec_decode_acceptance_histogram")
    if inner is None:
        return {}
    rounds: dict[int, int] = {}
    for key in inner.content:
        if not (key.isascii() and key.isdigit() and len(key) < 4):
            raise inner.error(key, "a number of accepted tokens is expected here")
        rounds[int(key)] = inner.count(key) or 0
    if rounds and (drafted := _drafted_a_round(node)) is not None:
        rounds.setdefault(drafted, 0)  # how many tokens were drafted, also where none of the last was ever accepted
    return recompute.positions(rounds)


def _drafted_a_round(node: Node) -> int | None:
    """Tokens drafted in each round; None where that is no whole number, because rounds differed."""
    rounds, drafted = _single(node, "total_spec_decode_steps"), _single(node, "total_draft_tokens")
    if not rounds or drafted is None or drafted % rounds or drafted > rounds * _MOST_DRAFTED:
        return None
    return int(drafted / rounds)


def _fits(taken: Taken, group: Sequence[Document]) -> bool:
    """Whether these are the summary's own requests: as many, with the same mean time to the first token."""
    found: Mapping[str, Value] = recompute.of_requests(aiperf_requests.requests(group))
    same = ("requests_completed", "ttft_mean_ms", "e2e_mean_ms")
    both = [(taken.metrics.get(name), found.get(name)) for name in same]
    return all(
        isinstance(one, (int, float)) and isinstance(other, (int, float)) and abs(one - other) <= 1e-6 * one
        for one, other in both
    )


def _columns(node: Node) -> dict[str, Scalar]:
    config = node.node("input_config") or node
    endpoint, models = config.node("endpoint"), config.node("models")
    names = models.nodes("items") if models else []
    phases = [phase for phase in config.nodes("phases") if phase.name("kind") == "profiling"]
    phase = phases[0] if len(phases) == 1 else None
    extra = endpoint.node("extra") if endpoint else None
    kind = endpoint.name("type") if endpoint else None
    return {
        "target": names[0].name("name") if len(names) == 1 else None,
        "endpoint": kind if kind in ("completions", "chat") else None,
        "ignore_eos": extra.flag("ignore_eos") if extra else None,
        "temperature": extra.number("temperature") if extra else None,
        "concurrency": phase.count("concurrency") if phase else None,
        "num_prompts": phase.count("requests") if phase else None,
        "request_rate_rps": phase.number("rate") if phase else None,
        "requested_output_tokens": _asked(config),
    }


def _asked(config: Node) -> int | None:
    datasets = config.nodes("datasets")
    lengths = datasets[0].node("osl") if len(datasets) == 1 else None
    if lengths is None or lengths.content.get("stddev"):
        return None
    mean = lengths.number("mean")
    return int(mean) if mean is not None and mean.is_integer() else None
