"""The last step of every importer: build one run from printed figures and those recomputed from the file's requests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from interchange.fields import Taken, latency_columns
from interchange.json_reader import Document
from lab.metrics.measure import Value
from lab.metrics.run_data import statistics_ms
from warehouse.bundles.imported_run import (
    ImportedRequests,
    ImportedRun,
    SourceFile,
    all_columns,
    all_metrics,
    latencies_of,
    run_id,
)

#: Relative difference between a printed figure and the one recomputed from the same file's requests above which it is
#: doubted. Tools round and interpolate a little differently; percentiles of a dozen values move most.
TOLERANCE = 0.005
#: Latencies between the tokens of one output.
_BETWEEN = ("tpot", "icl", "itl")
_OF_DRAFTED = ("acceptance_rate", "acceptance_length", "acceptance_per_position")
#: This many requests never have times to first token within this share of each other, nor is the mean of a streamed
#: answer's first token so close to that of its end. If the server did not stream, clients print a constant, or the end.
_MANY, _LEAST_SPREAD = 10, 1e-4
#: Tools compute shares in floating point.
_ROUNDING = 1e-6
#: Figures that some tools print as 0 for a run in which nothing completed; here they are unknown.
_OF_COMPLETED = (
    "duration_s",
    "prompt_tokens",
    "completion_tokens",
    "request_per_s",
    "output_tok_per_s",
    "total_tok_per_s",
    "goodput_request_per_s",
    *latency_columns("ttft", "tpot", "itl", "icl", "e2e"),
)


#: Figures that some tools print as 0 for answers of which they counted no token.
_OF_OUTPUT = ("completion_tokens", "output_tok_per_s", "total_tok_per_s", *latency_columns("tpot"))


def of_requests(requests: ImportedRequests) -> dict[str, Value]:
    """Compute counts, latencies and acceptance over a run's requests; only what is known for every completed one."""
    done = requests.completed
    values: dict[str, Value] = {"requests_completed": len(done), "requests_failed": len(requests) - len(done)}
    values["prompt_tokens"] = _sum(done, "prompt_tokens")
    values["completion_tokens"] = _sum(done, "completion_tokens")
    for name, latencies_ms in latencies_of(done).items():
        values |= statistics_ms(name, latencies_ms)
    counts = (_sum(done, f"spec_{name}") for name in ("drafts", "draft_tokens", "accepted_tokens"))
    values |= acceptance(*counts)
    return {name: value for name, value in values.items() if value is not None}


def acceptance(drafts: int | None, drafted: int | None, accepted: int | None) -> dict[str, Value]:
    """Return counts, rate (accepted / drafted) and length (1 + accepted / rounds) by Drafthouse's definitions."""
    values: dict[str, Value] = {
        "num_drafts": drafts,
        "num_draft_tokens": drafted,
        "num_accepted_tokens": accepted,
        "acceptance_rate": None if accepted is None or not drafted else accepted / drafted,
        "acceptance_length": None if accepted is None or not drafts else 1 + accepted / drafts,
    }
    return {name: value for name, value in values.items() if value is not None}


def add_duration(taken: Taken) -> None:
    """Compute the duration from a printed rate that the tool divided by it, if the file has no duration."""
    done, rate = (_number(taken.metrics.get(name)) for name in ("requests_completed", "request_per_s"))
    if done and rate and taken.metrics.get("duration_s") is None:
        taken.metrics["duration_s"] = done / rate


def rates(metrics: Mapping[str, Value]) -> dict[str, Value]:
    """Return throughput from counts and duration, as far as they are known."""
    duration_s = _number(metrics.get("duration_s"))
    if not duration_s:
        return {}
    done, prompt, output = (
        _number(metrics.get(name)) for name in ("requests_completed", "prompt_tokens", "completion_tokens")
    )
    values = {
        "request_per_s": done,
        "output_tok_per_s": output,
        "total_tok_per_s": None if prompt is None or output is None else prompt + output,
    }
    return {name: value / duration_s for name, value in values.items() if value is not None}


def disagreements(printed: Mapping[str, Value], computed: Mapping[str, Value], source: str) -> tuple[str, ...]:
    """Return a sentence for each figure of the file that its own other figures contradict."""
    pairs = ((name, _number(printed.get(name)), _number(value)) for name, value in computed.items())
    return tuple(
        f"{name}: the file says {printed_value:g}, but {source} give {computed_value:g}"
        for name, printed_value, computed_value in pairs
        if printed_value is not None
        and computed_value is not None
        and not math.isclose(printed_value, computed_value, rel_tol=TOLERANCE, abs_tol=1e-3)
    )


def positions(accepted_of_round: Mapping[int, int]) -> dict[str, Value]:
    """Return acceptance per position from the numbers of rounds that accepted 0, 1, 2 ... drafted tokens."""
    rounds = sum(accepted_of_round.values())
    if not rounds:
        return {}
    longest = max(accepted_of_round)
    reached = [sum(n for length, n in accepted_of_round.items() if length >= at) for at in range(1, longest + 1)]
    return {"acceptance_per_position": tuple(n / rounds for n in reached)} if reached else {}


def _sum(completed: ImportedRequests, name: str) -> int | None:
    """Return the sum of counts; None if there are none or one is unknown."""
    if not len(completed) or not completed.known(name).all():
        return None
    counts: list[int] = completed.texts(name).to_pylist()
    return sum(counts)


def _number(value: Value) -> float | None:
    return None if value is None or isinstance(value, tuple) else float(value)


def build_run(
    tool: str,
    document: Document,
    content: object,
    taken: Taken,
    *,
    requests: ImportedRequests | None = None,
    tool_version: str | None = None,
    place: str = "",
    labels: Mapping[str, str] | None = None,
    companions: Sequence[SourceFile] = (),
) -> ImportedRun:
    """Build the run. If the file has its requests, figures recomputed from them replace the printed ones, and a
    difference is noted as a doubt. The run's id is the digest of `content`.
    """
    computed = of_requests(requests) if requests is not None else {}
    doubts = disagreements(taken.metrics, computed, "its own requests")
    metrics = {**taken.metrics, **computed}
    derived = rates(metrics)
    doubts += disagreements(metrics, derived, "its tokens and duration")
    doubts += _acceptance_doubts(metrics)
    taken.metrics = {**derived, **metrics}
    _refuse_impossible(document, taken.metrics)
    _refuse_impossible(document, derived)
    if not taken.metrics.get("requests_completed", 1):
        taken.drop(_OF_COMPLETED, "no request completed")
    _drop_what_nothing_has(taken, requests)
    if requests is not None and _why_no_first_token(computed):
        requests = ImportedRequests(requests.arrow.drop_columns(["ttft_ms", "tpot_ms"]))
    return ImportedRun(
        run_id=run_id(tool, content),
        tool=tool,
        tool_version=tool_version,
        source=document.file.source,
        place=place,
        columns=all_columns(taken.columns),
        metrics=all_metrics(taken.metrics),
        requests=requests,
        labels=dict(labels or {}),
        printed=dict(taken.printed),
        left_out=tuple(dict.fromkeys(taken.left_out)),
        doubts=tuple(dict.fromkeys((*doubts, *taken.doubts))),
        companions=tuple(companions),
    )


def _drop_what_nothing_has(taken: Taken, requests: ImportedRequests | None) -> None:
    """Drop figures that some tools print as 0 when there is nothing to compute them from."""
    metrics = taken.metrics
    if metrics.get("completion_tokens") == 0:
        # vLLM's client of 2025 read no reasoning: "Total generated tokens: 0" of a model that had answered.
        taken.drop(_OF_OUTPUT, "no token of any answer was counted")
    if _has_single_tokens(metrics, requests):
        taken.drop(latency_columns(*_BETWEEN), "no answer has a second token")
    if why := _why_no_first_token(metrics):  # clients compute the time per token from that to the first
        taken.drop(latency_columns("ttft", "tpot"), why)
    for latency in ("tpot", "e2e", "icl", "itl"):
        if _is_zero(metrics, latency):
            taken.drop(latency_columns(latency), "0 in all of its statistics: nothing was measured")
    for count, names in (("num_draft_tokens", _OF_DRAFTED), ("num_drafts", ("acceptance_length",))):
        if metrics.get(count) == 0:
            taken.drop(names, "no token was drafted")


def _why_no_first_token(metrics: Mapping[str, Value]) -> str:
    """Return why the times to first token cannot have been measured; empty if they may have been."""
    middle, last = (_number(metrics.get(name)) for name in ("ttft_p50_ms", "ttft_p99_ms"))
    answers = _number(metrics.get("requests_completed")) or 0
    is_constant = bool(answers >= _MANY and middle and last and last - middle <= _LEAST_SPREAD * middle)
    if is_constant or _is_zero(metrics, "ttft"):
        return f"every request has a time to first token of {middle or 0:g} ms: it was not measured"
    first, whole, per_token = (_number(metrics.get(f"{name}_mean_ms")) for name in ("ttft", "e2e", "tpot"))
    comes_whole = first and whole and math.isclose(first, whole, rel_tol=_LEAST_SPREAD)
    if (comes_whole or per_token == 0) and answers and (_number(metrics.get("completion_tokens")) or 0) >= 2 * answers:
        return "each answer came as a whole: the time to its first token was not measured"
    return ""


def _is_zero(metrics: Mapping[str, Value], latency: str) -> bool:
    """Return whether all known statistics of the latency are 0."""
    known = [metrics[name] for name in latency_columns(latency) if metrics.get(name) is not None]
    return bool(known) and not any(known)


def _has_single_tokens(metrics: Mapping[str, Value], requests: ImportedRequests | None) -> bool:
    """Return whether it is certain that no completed request has a second token."""
    if requests is not None and len(requests.completed) and requests.completed.known("completion_tokens").all():
        return float(requests.completed.numbers("completion_tokens").max()) <= 1
    tokens, answers = (_number(metrics.get(name)) for name in ("completion_tokens", "requests_completed"))
    return tokens is not None and bool(answers) and tokens == answers


def _refuse_impossible(document: Document, metrics: Mapping[str, Value]) -> None:
    """Raise ForeignFileError for shares above 1 and for quotients that overflow."""
    per_position = metrics.get("acceptance_per_position")
    shares = [metrics.get("acceptance_rate"), *(per_position if isinstance(per_position, tuple) else ())]
    if any(isinstance(share, float) and share > 1 + _ROUNDING for share in shares):
        raise document.error((), "more tokens were accepted than drafted, which is impossible")
    for name, value in metrics.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise document.error((), f"{name} cannot be computed from its figures: they are too large or too small")


def _acceptance_doubts(metrics: Mapping[str, Value]) -> tuple[str, ...]:
    counts = (metrics.get(name) for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"))
    drafts, drafted, accepted = (value if isinstance(value, int) else None for value in counts)
    recomputed = acceptance(drafts, drafted, accepted)
    doubts = disagreements(metrics, recomputed, "its counts of drafted and accepted tokens")
    per_position = metrics.get("acceptance_per_position")
    if isinstance(per_position, tuple):
        length: dict[str, Value] = {"acceptance_length": 1 + sum(per_position)}
        doubts += disagreements(metrics, length, "1 + its rates per position")
    return doubts
