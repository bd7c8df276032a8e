"""Each number of a run declared once: name, unit, which way is better, formula and what it needs.

Tables, views and the data dictionary take their columns and comments from here. Unknown is None, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lab.metrics import latency, steady, telemetry
from lab.metrics.definition import Metric
from lab.metrics.histogram import histogram
from lab.metrics.latency import LATENCIES, Samples
from lab.metrics.records import RequestRecord, RunRecord, ServerCounters, TelemetrySample
from lab.study import Slo

Value = float | int | tuple[float, ...] | None


_END, _PROMPTS, _TOKENS = ("end_s", "error"), ("prompt_tokens",), ("completion_tokens",)
_COUNTERS = ("counters_before", "counters_after")
_RUN_METRICS = (
    Metric("requests_completed", "requests", "neither", "requests without an error", _END),
    Metric("requests_failed", "requests", "lower", "requests with an error, or without an end", _END),
    Metric("duration_s", "s", "neither", "window start to the end of the last completed request", _END),
    Metric("prompt_tokens", "tokens", "neither", "sum of the server's prompt_tokens of completed requests", _PROMPTS),
    Metric(
        "completion_tokens", "tokens", "neither", "sum of the server's completion_tokens of completed requests", _TOKENS
    ),
    Metric("output_tok_per_s", "tok/s", "higher", "completion_tokens / duration_s", (*_TOKENS, *_END)),
    Metric(
        "total_tok_per_s",
        "tok/s",
        "higher",
        "(prompt_tokens + completion_tokens) / duration_s",
        (*_PROMPTS, *_TOKENS, *_END),
    ),
    Metric("request_per_s", "requests/s", "higher", "requests_completed / duration_s", _END),
    Metric(
        "goodput_request_per_s",
        "requests/s",
        "higher",
        "completed requests that keep every bound of the study's SLO / duration_s; null without an SLO",
        ("slo", *_END),
    ),
    Metric("num_drafts", "rounds", "neither", "verification rounds in the measured window (after - before)", _COUNTERS),
    Metric("num_draft_tokens", "tokens", "neither", "tokens drafted in the window (after - before)", _COUNTERS),
    Metric("num_accepted_tokens", "tokens", "neither", "drafted tokens accepted (after - before)", _COUNTERS),
    Metric("acceptance_rate", "fraction", "higher", "num_accepted_tokens / num_draft_tokens", _COUNTERS),
    Metric(
        "acceptance_length",
        "tokens/round",
        "higher",
        "1 + num_accepted_tokens / num_drafts: the bonus token counts",
        _COUNTERS,
    ),
    Metric(
        "acceptance_per_position",
        "fraction",
        "higher",
        "element i: share of rounds whose first i drafted tokens were all accepted (not conditional on i - 1)",
        _COUNTERS,
    ),
    Metric(
        "prefix_cache_hit_rate",
        "fraction",
        "neither",
        "prefix-cache hits / queries in the window, in tokens",
        _COUNTERS,
    ),
    Metric(
        "server_generation_tokens",
        "tokens",
        "neither",
        "tokens the server itself counted in the window (after - before)",
        _COUNTERS,
    ),
)
_STATISTICS = {"mean": "mean", **{f"p{q}": f"{q}th percentile (linear)" for q in (50, 90, 95, 99)}}
_LATENCY_METRICS = tuple(
    Metric(f"{name}_{statistic}_ms", "ms", "lower", f"{words} of {meaning}", needs)
    for name, (meaning, needs) in LATENCIES.items()
    for statistic, words in _STATISTICS.items()
)

#: Every number of a run, in the order of the columns.
METRICS: tuple[Metric, ...] = _RUN_METRICS + steady.METRICS + _LATENCY_METRICS + telemetry.METRICS


def measure(
    run: RunRecord, requests: Sequence[RequestRecord], samples: Sequence[TelemetrySample] = ()
) -> dict[str, Value]:
    """Every one of METRICS by name. A failed run has counts of its requests, if it had any, and nothing else."""
    values: dict[str, Value] = dict.fromkeys(metric.name for metric in METRICS)
    completed = [request for request in requests if latency.is_completed(request)]
    if run.status == "completed" or requests:
        values["requests_completed"] = len(completed)
        values["requests_failed"] = len(requests) - len(completed)
    if run.status == "completed":
        values |= _throughput(completed, run.slo)
        values |= _steady(run, requests)
        values |= _speculation(run.counters_before, run.counters_after)
        values |= telemetry.summary(samples)
        values["energy_j_per_output_token"] = _quotient(values["energy_j"], values["completion_tokens"])
        for name, found in latency.samples_ms(completed).items():
            values |= _statistics(name, found)
    return values


def histograms(run: RunRecord, requests: Sequence[RequestRecord]) -> dict[str, dict[int, int]]:
    """The histogram of each of LATENCIES that is known, in ms; none of a failed run."""
    if run.status != "completed":
        return {}
    samples = latency.samples_ms([request for request in requests if latency.is_completed(request)])
    return {name: histogram(values) for name, values in samples.items() if values is not None and values.size}


def _throughput(completed: Sequence[RequestRecord], slo: Slo) -> dict[str, Value]:
    duration_s = max((request.end_s for request in completed if request.end_s is not None), default=None)
    prompt = _sum([request.prompt_tokens for request in completed])
    output = _sum([request.completion_tokens for request in completed])
    return {
        "duration_s": duration_s,
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "output_tok_per_s": _ratio(output, duration_s),
        "total_tok_per_s": _ratio(None if prompt is None or output is None else prompt + output, duration_s),
        "request_per_s": _ratio(len(completed), duration_s),
        "goodput_request_per_s": _ratio(_good_requests(completed, slo), duration_s),
    }


def _steady(run: RunRecord, requests: Sequence[RequestRecord]) -> dict[str, Value]:
    """Arrivals at a rate leave streams empty on purpose, so only a closed loop has a steady window."""
    window = steady.steady_window(requests, run.load.max_concurrency) if run.load.closed_loop else None
    if window is None:
        return {}
    length_s = window[1] - window[0]
    return {
        "steady_window_s": length_s,
        "steady_output_tok_per_s": _ratio(steady.steady_tokens(requests, window), length_s),
    }


def _good_requests(completed: Sequence[RequestRecord], slo: Slo) -> int | None:
    if slo == Slo():
        return None
    kept = [_keeps(request, slo) for request in completed]
    return None if None in kept else sum(map(bool, kept))


def _keeps(request: RequestRecord, slo: Slo) -> bool | None:
    """Whether the request keeps every bound that is set; None where that is unknown. One token has no TPOT to break."""
    if slo.tpot_ms is not None and request.completion_tokens is None:
        return None
    one_token = request.completion_tokens is not None and request.completion_tokens < 2
    measured = (
        (slo.ttft_ms, latency.ttft_ms(request)),
        (None if one_token else slo.tpot_ms, latency.tpot_ms(request)),
        (slo.e2e_ms, latency.e2e_ms(request)),
    )
    return all(value is not None and value <= bound for bound, value in measured if bound is not None)


def _speculation(before: ServerCounters | None, after: ServerCounters | None) -> dict[str, Value]:
    delta = _differences(before, after)
    drafts, drafted, accepted = (delta.get(f"num_{name}") for name in ("drafts", "draft_tokens", "accepted_tokens"))
    per_round = _ratio(accepted, drafts)
    return {
        "num_drafts": drafts,
        "num_draft_tokens": drafted,
        "num_accepted_tokens": accepted,
        "acceptance_rate": _ratio(accepted, drafted),
        "acceptance_length": None if per_round is None else 1 + per_round,
        "acceptance_per_position": _per_position(before, after, drafts),
        "prefix_cache_hit_rate": _ratio(delta.get("prefix_cache_hits"), delta.get("prefix_cache_queries")),
        "server_generation_tokens": delta.get("generation_tokens"),
    }


def _differences(before: ServerCounters | None, after: ServerCounters | None) -> dict[str, int]:
    """What each counter grew by. Nothing where one shrank: the server restarted, so no difference means anything."""
    if before is None or after is None:
        return {}
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in ServerCounters.model_fields}
    numbers = {
        name: round(last - first)
        for name, (first, last) in pairs.items()
        if isinstance(first, float) and isinstance(last, float)
    }
    return {} if any(number < 0 for number in numbers.values()) else numbers


def _per_position(
    before: ServerCounters | None, after: ServerCounters | None, drafts: int | None
) -> tuple[float, ...] | None:
    first = None if before is None else before.num_accepted_tokens_per_position
    last = None if after is None else after.num_accepted_tokens_per_position
    if first is None or last is None or len(first) != len(last) or not first or not drafts:
        return None
    rates = tuple((end - start) / drafts for start, end in zip(first, last, strict=True))
    return None if min(rates) < 0 else rates


def _statistics(name: str, samples: Samples | None) -> Mapping[str, Value]:
    if samples is None or not samples.size:
        return {}
    quantiles = np.percentile(samples, (50, 90, 95, 99))
    found = dict(zip(("p50", "p90", "p95", "p99"), quantiles.tolist(), strict=True)) | {"mean": float(samples.mean())}
    return {f"{name}_{statistic}_ms": found[statistic] for statistic in _STATISTICS}


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def _quotient(part: Value, whole: Value) -> float | None:
    """`_ratio` of two metrics."""
    return None if isinstance(part, tuple) or isinstance(whole, tuple) else _ratio(part, whole)


def _ratio(part: float | None, whole: float | None) -> float | None:
    """None also where the whole is so near to nothing that no number is large enough."""
    if part is None or not whole:
        return None
    found = part / whole
    return found if math.isfinite(found) else None
