"""Compute the metrics of a run from its requests, counters and telemetry. Unknown is None, never 0."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from lab.metrics import slo
from lab.metrics.catalogue import LATENCIES, METRICS, STATISTICS
from lab.metrics.histogram import histogram
from lab.metrics.latency import Latencies, Samples, ttfa_ms
from lab.metrics.record_table import Floats, Mask, Ragged
from lab.metrics.records import RunRecord, ServerCounters, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.quality.scores import scores
from lab.study.workload import NO_TEXT, WITH_GRAMMAR

Value = float | int | tuple[float, ...] | None
#: A stream is busy while it has a request in flight; from this share of busy streams on, the load counts as full.
BUSY_SHARE = 0.5
Window = tuple[float, float]  # seconds of the run's measured window
#: NVML's clock event reasons that are not throttling: an idle GPU, or clocks set on purpose.
_NO_THROTTLING = {"gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost"}
#: What means nothing where a trace had no texts and random tokens were sent instead.
_OF_TEXT = (
    "acceptance_rate",
    "acceptance_length",
    "acceptance_per_position",
    "acceptance_of_drafted_position",
    "reasoning_acceptance_length",
    "answer_acceptance_length",
    "num_wasted_tokens",
    "wasted_share",
)
_MEANS = {
    "gpu_power_mean_w": "gpu_power_w",
    "gpu_utilisation_mean_percent": "gpu_utilisation_percent",
    "gpu_sm_clock_mean_mhz": "gpu_sm_clock_mhz",
    "gpu_memory_clock_mean_mhz": "gpu_memory_clock_mhz",
    "gpu_temperature_mean_c": "gpu_temperature_c",
    "engine_running_mean": "engine_running",
    "engine_waiting_mean": "engine_waiting",
    "host_cpu_mean_percent": "host_cpu_percent",
}
_MAXIMA = {
    "gpu_memory_used_max_bytes": "gpu_memory_used_bytes",
    "gpu_temperature_max_c": "gpu_temperature_c",
    "kv_cache_usage_max": "kv_cache_usage",
    "engine_waiting_max": "engine_waiting",
    "host_memory_used_max_bytes": "host_memory_used_bytes",
}


def measure(
    run: RunRecord,
    requests: RequestTable,
    samples: Sequence[TelemetrySample] = (),
    latencies_ms: Latencies | None = None,
) -> dict[str, Value]:
    """Return every one of METRICS by name. A failed run has at most the counts of its requests.

    `latencies_ms` are those of the completed requests, if they have been computed already.
    """
    values: dict[str, Value] = dict.fromkeys(metric.name for metric in METRICS)
    completed = requests.completed
    if run.status == "completed" or len(requests):
        values["requests_completed"] = len(completed)
        values["requests_failed"] = len(requests) - len(completed)
    if run.status == "completed":
        values |= _throughput(completed)
        values |= _within_slo(run, completed, values["duration_s"])
        values |= _steady(run, requests)
        values |= _speculation(run.counters_before, run.counters_after)
        values |= _rounds(completed)
        values["num_forbidden_draft_tokens"] = _forbidden(run, values)
        values |= _reasoning(completed, values["duration_s"])
        if requests.equals("category", NO_TEXT).any():
            values |= dict.fromkeys(_OF_TEXT)
        values |= _scored(run, completed)
        values |= telemetry_metrics(samples)
        values["energy_j_per_output_token"] = _quotient(values["energy_j"], values["completion_tokens"])
        for name, found in (samples_ms(completed) if latencies_ms is None else latencies_ms).items():
            values |= statistics_ms(name, found)
    return values


def samples_ms(completed: RequestTable) -> Latencies:
    """Return all values of each of LATENCIES. None where one request's values are unknown: a part would mislead."""
    tokens_known = bool(completed.known("completion_tokens").all())
    return {
        name: without_unknown(latency.compute(completed))
        if tokens_known or "completion_tokens" not in latency.needs
        else None
        for name, latency in LATENCIES.items()
    }


def without_unknown(values_ms: Floats | None) -> Samples | None:
    """Leave out NaN; None stays."""
    return None if values_ms is None else values_ms[~np.isnan(values_ms)]


def histograms(run: RunRecord, latencies_ms: Latencies) -> dict[str, dict[int, int]]:
    """Return the histogram in ms of each of LATENCIES that is known; an empty dict for a failed run."""
    if run.status != "completed":
        return {}
    return {name: histogram(values) for name, values in latencies_ms.items() if values is not None and values.size}


def _throughput(completed: RequestTable) -> dict[str, Value]:
    duration_s = float(completed.numbers("end_s").max()) if len(completed) else None
    prompt, output = whole_sum(completed.numbers("prompt_tokens")), whole_sum(completed.numbers("completion_tokens"))
    return {
        "duration_s": duration_s,
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "output_tok_per_s": _ratio(output, duration_s),
        "total_tok_per_s": _ratio(None if prompt is None or output is None else prompt + output, duration_s),
        "request_per_s": _ratio(len(completed), duration_s),
    }


def _within_slo(run: RunRecord, completed: RequestTable, duration_s: Value) -> dict[str, Value]:
    """In a search for a capacity, what a request waits in the client counts: the server is to carry the load."""
    good = slo.requests_within(completed, run.slo, from_intended=run.trial is not None)
    if good is None:
        return {}
    within, tokens = int(good.sum()), completed.numbers("completion_tokens")[good]
    return {
        "requests_within_slo": within,
        "goodput_request_per_s": _quotient(within, duration_s),
        "goodput_tok_per_s": _quotient(whole_sum(tokens) if within else 0, duration_s),
    }


def _steady(run: RunRecord, requests: RequestTable) -> dict[str, Value]:
    """Only a closed loop has a steady window: arrivals at a rate leave streams empty on purpose."""
    window = steady_window(requests, run.load.max_concurrency) if run.load.closed_loop else None
    if window is None:
        return {}
    length_s = window[1] - window[0]
    return {
        "steady_window_s": length_s,
        "steady_output_tok_per_s": _ratio(steady_tokens(requests, window), length_s),
    }


def _speculation(before: ServerCounters | None, after: ServerCounters | None) -> dict[str, Value]:
    delta = _differences(before, after)
    drafts, drafted, accepted = (delta.get(f"num_{name}") for name in ("drafts", "draft_tokens", "accepted_tokens"))
    per_round = _ratio(accepted, drafts)
    wasted = None if drafted is None or accepted is None else drafted - accepted
    return {
        "num_drafts": drafts,
        "num_draft_tokens": drafted,
        "num_accepted_tokens": accepted,
        "acceptance_rate": _ratio(accepted, drafted),
        "acceptance_length": None if per_round is None else 1 + per_round,
        "acceptance_per_position": _per_position(before, after, drafts),
        "draft_length_mean": _ratio(drafted, drafts),
        "num_verified_tokens": None if drafted is None or drafts is None else drafted + drafts,
        "num_wasted_tokens": wasted,
        "wasted_share": _ratio(wasted, drafted),
        "prefix_cache_hit_rate": _ratio(delta.get("prefix_cache_hits"), delta.get("prefix_cache_queries")),
        "server_generation_tokens": delta.get("generation_tokens"),
    }


def _forbidden(run: RunRecord, values: Mapping[str, Value]) -> int | None:
    """What engines leave out of their counts: a request's first token comes with its prompt, and every other step of
    the target makes one token beside those accepted, also if the grammar left nothing of its draft.
    """
    names = ("server_generation_tokens", "num_accepted_tokens", "num_draft_tokens", "num_drafts", "requests_completed")
    counts = [count for count in map(values.get, names) if isinstance(count, int)]
    speculation = run.arm.speculation
    if run.workload.dataset != WITH_GRAMMAR or speculation is None or not speculation.drafts_at_every_step:
        return None
    if len(counts) < len(names) or values["requests_failed"]:
        return None
    generated, accepted, drafted, rounds, answered = counts
    steps = max(generated - answered - accepted, rounds)
    return max(0, speculation.num_speculative_tokens * steps - drafted)


def _rounds(completed: RequestTable) -> dict[str, Value]:
    """Figures of the whole histogram of rounds; none if one request's is unknown."""
    drafted, accepted, counts = (completed.lists(f"rounds_{name}") for name in ("drafted", "accepted", "count"))
    if not len(completed) or not counts.known.all() or not counts.values.size:
        return {}
    most = int(drafted.values.max())
    rounds = np.bincount(drafted.values, weights=counts.values, minlength=most + 1)
    reached = np.bincount(accepted.values, weights=counts.values, minlength=most + 1)[::-1].cumsum()[::-1]
    drafted_so_far = rounds[::-1].cumsum()[::-1]
    return {
        "rounds_by_draft_length": tuple((rounds / rounds.sum()).tolist()),
        "acceptance_of_drafted_position": tuple((reached[1 : most + 1] / drafted_so_far[1:]).tolist()) or None,
    }


def _reasoning(completed: RequestTable, duration_s: Value) -> dict[str, Value]:
    reasoning, output = (whole_sum(completed.numbers(f"{kind}_tokens")) for kind in ("reasoning", "completion"))
    if reasoning is None or output is None:
        return {}
    answer = max(0, output - reasoning)
    waits_ms = ttfa_ms(completed)
    waits_ms = waits_ms[~np.isnan(waits_ms)]
    quantiles = np.percentile(waits_ms, (50, 95)).tolist() if waits_ms.size else (None, None)
    return {
        "reasoning_tokens": reasoning,
        "answer_tokens": answer,
        "answer_tok_per_s": _quotient(answer, duration_s),
        "ttfa_p50_ms": quantiles[0],
        "ttfa_p95_ms": quantiles[1],
        **(_per_chunk(completed) | _acceptance_apart(completed) if reasoning else {}),
    }


def _acceptance_apart(completed: RequestTable) -> dict[str, Value]:
    """Acceptance lengths of the reasoning and of the answer, of all requests together."""
    names = ("spec_drafts", "spec_accepted_tokens", "reasoning_rounds", "reasoning_accepted_tokens")
    sums = [whole_sum(completed.numbers(name)) for name in names]
    if None in sums:
        return {}
    rounds, accepted, before, accepted_before = (int(number or 0) for number in sums)
    parts = {"reasoning": (accepted_before, before), "answer": (accepted - accepted_before, rounds - before)}
    return {f"{part}_acceptance_length": 1 + made / of for part, (made, of) in parts.items() if of}


def _per_chunk(completed: RequestTable) -> dict[str, Value]:
    """Tokens a chunk before and after the answer began; the first chunk of a request comes of no round."""
    chunks, tokens = completed.lists("chunk_s"), completed.lists("chunk_tokens")
    if not tokens.known.all() or not np.array_equal(tokens.bounds, chunks.bounds):
        return {}
    begins = np.nan_to_num(completed.numbers("first_answer_s"), nan=np.inf)[chunks.owners]
    later = np.concatenate(([False], chunks.follows)) if chunks.values.size else chunks.values > 0
    before = chunks.values < begins
    parts = {"reasoning": before & later, "answer": ~before & later}
    return {
        f"{part}_tokens_per_chunk": _ratio(float(tokens.values[mask].sum()), int(mask.sum()))
        for part, mask in parts.items()
    }


def _scored(run: RunRecord, completed: RequestTable) -> dict[str, Value]:
    if run.workload.score is None:
        return {}
    found = scores(run.workload.score, completed)
    found = found[~np.isnan(found)]
    return {"requests_scored": int(found.size), "task_score": float(found.mean()) if found.size else None}


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


def statistics_ms(name: str, samples: Samples | None) -> dict[str, Value]:
    """Return mean and percentiles of a latency; empty without values."""
    if samples is None or not samples.size:
        return {}
    quantiles = dict(zip(("p50", "p90", "p95", "p99"), np.percentile(samples, (50, 90, 95, 99)).tolist(), strict=True))
    statistics = quantiles | {"mean": float(samples.mean())}
    return {f"{name}_{statistic}_ms": statistics[statistic] for statistic in STATISTICS}


def whole_sum(counts: Floats) -> int | None:
    """Return the sum of whole numbers; None if there are none or one is unknown (NaN)."""
    return int(counts.sum()) if counts.size and not np.isnan(counts).any() else None


def _quotient(part: Value, whole: Value) -> float | None:
    """`_ratio` for values of metrics; None for a metric with several values."""
    return None if isinstance(part, tuple) or isinstance(whole, tuple) else _ratio(part, whole)


def _ratio(part: float | None, whole: float | None) -> float | None:
    """None for a zero or unknown whole, and where the quotient overflows."""
    if part is None or not whole:
        return None
    ratio = part / whole
    return ratio if math.isfinite(ratio) else None


def steady_window(requests: RequestTable, streams: int) -> Window | None:
    """Return the first and last moment at which enough of `streams` had a request, failed ones included, or None.

    Between them streams may pause briefly: a request ends a little before the next one is sent.
    """
    sent_s, end_s = requests.numbers("sent_s"), requests.numbers("end_s")
    if not requests.is_completed.any():
        return None
    until_s = end_s[requests.is_completed].max()
    begins_s = sent_s[sent_s < until_s]
    ends_s = np.fmin(end_s[sent_s < until_s], until_s)  # of a request without an end, `until_s`
    moments_s, steps = np.concatenate((begins_s, ends_s)), np.repeat((1, -1), begins_s.size)
    order = np.lexsort((-steps, moments_s))  # a request that ends as another is sent hands its stream over
    full = np.flatnonzero(np.cumsum(steps[order])[:-1] >= BUSY_SHARE * streams)
    if not full.size:
        return None
    first_s, last_s = float(moments_s[order[full[0]]]), float(moments_s[order[full[-1] + 1]])
    return (first_s, last_s) if last_s > first_s else None


def steady_tokens(requests: RequestTable, window: Window) -> int | None:
    """Return the tokens of completed requests that arrived within the window; None if one request's are unknown.

    A request that crosses a border of the window needs its counts per chunk. Tokens that came in no chunk have no known
    time.
    """
    completed = requests.completed
    chunks = completed.lists("chunk_s")
    within, counts = chunks.sums(_inside(chunks, window)), chunks.lengths
    whole = completed.numbers("completion_tokens")[within == counts]
    crossing = completed.where((within > 0) & (within < counts))
    tokens, times = crossing.lists("chunk_tokens"), crossing.lists("chunk_s")
    if not counts.all() or np.isnan(whole).any() or not np.array_equal(tokens.bounds, times.bounds):
        return None
    if (tokens.sums(tokens.values) != crossing.numbers("completion_tokens")).any():
        return None
    return int(whole.sum()) + int(tokens.values[_inside(times, window)].sum())


def _inside(times_s: Ragged, window: Window) -> Mask:
    return (window[0] < times_s.values) & (times_s.values <= window[1])


def telemetry_metrics(samples: Sequence[TelemetrySample]) -> Mapping[str, float | None]:
    """Return means, maxima and energy of one window's samples, given in order of time."""
    return {
        "energy_j": energy_j(samples),
        "gpu_throttled_share": throttled_share(samples),
        **{name: time_mean(_known(samples, field)) for name, field in _MEANS.items()},
        **{name: max((value for _, value in _known(samples, field)), default=None) for name, field in _MAXIMA.items()},
    }


def energy_j(samples: Sequence[TelemetrySample]) -> float | None:
    """Integrate power from the window's start to its last sample by the trapezoidal rule, in joules.

    Before the first sample, its power is assumed. If any sample has no power, the energy is unknown.
    """
    points = _known(samples, "gpu_power_w")
    if not points or len(points) != len(samples):
        return None
    return integral([(0.0, points[0][1]), *points])


def integral(points: Iterable[tuple[float, float]]) -> float:
    """Integrate (time, value) points in order of time by the trapezoidal rule."""
    return sum((end_s - start_s) * (first + last) / 2 for (start_s, first), (end_s, last) in pairwise(points))


def time_mean(points: Sequence[tuple[float, float]]) -> float | None:
    """Return the mean over time: each value is weighted by the time since the previous one (or the window's start).

    A window's last sample covers less than a second, so it must not weigh like the others.
    """
    starts = [0.0, *(t_s for t_s, _ in points)]
    weighted = [(t_s - start_s, value) for start_s, (t_s, value) in zip(starts, points, strict=False)]
    whole_s = sum(length_s for length_s, _ in weighted)
    return sum(length_s * value for length_s, value in weighted) / whole_s if whole_s > 0 else None


def throttled_share(samples: Sequence[TelemetrySample]) -> float | None:
    """Return the share of samples in which the GPUs' clocks were throttled."""
    recorded = [sample.gpu_throttle_reasons for sample in samples if sample.gpu_throttle_reasons is not None]
    if not recorded:
        return None
    return sum(bool(set(filter(None, reasons.split(","))) - _NO_THROTTLING) for reasons in recorded) / len(recorded)


def _known(samples: Sequence[TelemetrySample], field: str) -> list[tuple[float, float]]:
    values = ((sample.t_s, getattr(sample, field)) for sample in samples)
    return [(t_s, value) for t_s, value in values if value is not None]
