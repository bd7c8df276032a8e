"""Compute the metrics of a run from its requests, counters and telemetry. Unknown is None, never 0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from lab.metrics import latency, steady, telemetry
from lab.metrics.catalogue import METRICS, STATISTICS
from lab.metrics.histogram import histogram
from lab.metrics.latency import Samples
from lab.metrics.records import RequestRecord, RunRecord, ServerCounters, TelemetrySample
from lab.study import Slo

Value = float | int | tuple[float, ...] | None


def measure(
    run: RunRecord, requests: Sequence[RequestRecord], samples: Sequence[TelemetrySample] = ()
) -> dict[str, Value]:
    """Return every one of METRICS by name. A failed run has at most the counts of its requests."""
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
    """Return the histogram in ms of each of LATENCIES that is known; an empty dict for a failed run."""
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
        "goodput_request_per_s": _ratio(_requests_meeting(completed, slo), duration_s),
    }


def _steady(run: RunRecord, requests: Sequence[RequestRecord]) -> dict[str, Value]:
    """Only a closed loop has a steady window: arrivals at a rate leave streams empty on purpose."""
    window = steady.steady_window(requests, run.load.max_concurrency) if run.load.closed_loop else None
    if window is None:
        return {}
    length_s = window[1] - window[0]
    return {
        "steady_window_s": length_s,
        "steady_output_tok_per_s": _ratio(steady.steady_tokens(requests, window), length_s),
    }


def _requests_meeting(completed: Sequence[RequestRecord], slo: Slo) -> int | None:
    if slo == Slo():
        return None
    met = [_meets(request, slo) for request in completed]
    return None if None in met else sum(map(bool, met))


def _meets(request: RequestRecord, slo: Slo) -> bool | None:
    """Whether the request meets every bound that is set, or None if unknown. A single token has no TPOT to exceed."""
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
    """How much each counter grew; empty if one shrank, because then the server restarted and no difference is valid."""
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
    return {f"{name}_{statistic}_ms": found[statistic] for statistic in STATISTICS}


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if values and len(known) == len(values) else None


def _quotient(part: Value, whole: Value) -> float | None:
    """`_ratio` for values of metrics; None for a metric with several values."""
    return None if isinstance(part, tuple) or isinstance(whole, tuple) else _ratio(part, whole)


def _ratio(part: float | None, whole: float | None) -> float | None:
    """None for a zero or unknown whole, and where the quotient overflows."""
    if part is None or not whole:
        return None
    found = part / whole
    return found if math.isfinite(found) else None
