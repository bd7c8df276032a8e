"""Checks that the run was steady, and long enough for the figures that are shown."""

from __future__ import annotations

import numpy as np

from lab.metrics.latency import e2e_ms
from lab.metrics.record_table import Floats
from lab.metrics.request_table import RequestTable
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.evidence import Evidence
from lab.validity.words import percent

#: Drift between early and late requests: fewest of each, ratio of their speeds, and p value.
DRIFT_REQUESTS, DRIFT_RATIO, DRIFT_P = 10, 1.2, 0.001
#: Share of the window in which fewer than half of the streams had a request.
TAIL_SHARE, HALF = 0.25, 0.5
#: A percentile needs this many requests beyond it.
BEYOND = 5
PERCENTILES = (50, 90, 95, 99)


def _drift(evidence: Evidence) -> Answer:
    if evidence.run.load.arrivals in ("ramp", "trace"):
        return None
    early, late = _halves(evidence)
    if min(early.size, late.size) < DRIFT_REQUESTS:
        return Missing(f"{2 * DRIFT_REQUESTS} requests between the first and the last of every stream")
    slow, fast = sorted((float(np.median(early)), float(np.median(late))))
    if fast <= DRIFT_RATIO * slow:
        return None
    from scipy import stats  # noqa: PLC0415 - half a second of a processor, for the few runs whose halves differ

    if stats.mannwhitneyu(early, late).pvalue >= DRIFT_P:
        return None
    return Fired(
        f"A request of the first half ran at {np.median(early):.3g} tok/s (median), one of the second half at "
        f"{np.median(late):.3g} tok/s: the run was not steady."
    )


def _halves(evidence: Evidence) -> tuple[Floats, Floats]:
    """Return tokens per second of each request in order of sending, without the first and last of every stream."""
    streams, took_ms = evidence.run.load.max_concurrency, e2e_ms(evidence.sent)
    tokens = evidence.sent.numbers("completion_tokens")
    has_time = ~evidence.sent.known("error") & (took_ms != 0)
    speeds = np.divide(1000 * tokens, took_ms, out=np.full(took_ms.size, np.nan), where=has_time)[streams:-streams]
    inner = speeds[~np.isnan(speeds)]
    return inner[: inner.size // 2], inner[(inner.size + 1) // 2 :]


def _tail(evidence: Evidence) -> Answer:
    load = evidence.run.load
    if evidence.run.windows or not load.closed_loop or load.max_concurrency == 1 or not evidence.window_s:
        return None
    few_s = _few_in_flight_s(evidence.sent, HALF * load.max_concurrency, evidence.window_s)
    if few_s <= TAIL_SHARE * evidence.window_s:
        return None
    steady = evidence.number("steady_output_tok_per_s")
    without = "" if steady is None else f"; without that they are {steady:.4g} tok/s"
    return Fired(
        f"For {percent(few_s / evidence.window_s)} of the window fewer than half of the "
        f"{load.max_concurrency} streams had a request, while tokens per second count all of "
        f"it{without}."
    )


def _few_in_flight_s(sent: RequestTable, fewer_than: float, window_s: float) -> float:
    ends_s, begins_s = sent.numbers("end_s"), sent.numbers("sent_s")
    ends_s = ends_s[~np.isnan(ends_s)]
    moments_s, steps = np.concatenate((ends_s, begins_s)), np.repeat((-1, 1), (ends_s.size, begins_s.size))
    order = np.lexsort((steps, moments_s))
    in_flight = np.concatenate(([0], np.cumsum(steps[order])))  # before each moment, and before the window's end
    at_s = np.maximum.accumulate(np.concatenate(([0.0], moments_s[order])))
    passed_s = np.maximum(np.concatenate((moments_s[order], [window_s])) - at_s, 0.0)
    return float(passed_s[in_flight < fewer_than].sum())


def _percentiles(evidence: Evidence) -> Answer:
    requests = len(evidence.completed)
    weak = [q for q in PERCENTILES if requests * (100 - q) < 100 * BEYOND]
    if not weak or not requests:
        return None
    return Fired(
        f"{requests} answered requests are too few for {', '.join(f'p{q}' for q in weak)}: fewer than {BEYOND} lie "
        "beyond."
    )


CHECKS = (
    Check(
        name="drift_within_run",
        traps=(18, 20),
        severity="warning",
        looks_at=("sent_s", "end_s", "completion_tokens", "load"),
        threshold=f"a request's median tokens/s differ by a factor of {DRIFT_RATIO:g} between the two halves "
        f"(Mann-Whitney, p < {DRIFT_P:g}). Each stream's first and last request do not count; needs {DRIFT_REQUESTS} "
        "in each half. Not for ramps and traces",
        why="Both halves have the same work in random order; heat or other programs change the speed.",
        advice="Repeat the run on a quiet machine; look at clocks and temperature in its telemetry.",
        rule=_drift,
    ),
    Check(
        name="long_tail",
        traps=(18,),
        severity="note",
        looks_at=("sent_s", "end_s", "load.max_concurrency"),
        threshold=f"fewer than half of a closed loop's streams were busy for more than {percent(TAIL_SHARE)} of the "
        "window",
        why="Total tokens over total time includes the end, when few requests are left.",
        advice="Send more prompts per stream: with eight the tail is short.",
        rule=_tail,
    ),
    Check(
        name="few_requests",
        traps=(21,),
        severity="note",
        looks_at=("end_s", "error"),
        threshold=f"fewer than {BEYOND} requests beyond a percentile that is shown (p50, p90, p95, p99)",
        why="A percentile with one or two requests beyond it is luck.",
        advice="Send more prompts (500 for p99), or compare only means and medians.",
        rule=_percentiles,
    ),
)
