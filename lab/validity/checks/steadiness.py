"""Whether the run was steady, and long enough for the figures that are shown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from lab.metrics.latency import e2e_ms
from lab.metrics.records import RequestRecord
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


def _drift(seen: Evidence) -> Answer:
    if seen.run.load.arrivals in ("ramp", "trace"):
        return None
    early, late = _halves(seen)
    if min(len(early), len(late)) < DRIFT_REQUESTS:
        return Missing(f"{2 * DRIFT_REQUESTS} requests between the first and the last of every stream")
    slow, fast = sorted((float(np.median(early)), float(np.median(late))))
    if fast <= DRIFT_RATIO * slow or stats.mannwhitneyu(early, late).pvalue >= DRIFT_P:
        return None
    return Fired(
        f"A request of the first half ran at {np.median(early):.3g} tok/s (median), one of the second half at "
        f"{np.median(late):.3g} tok/s: the run was not steady."
    )


def _halves(seen: Evidence) -> tuple[Sequence[float], Sequence[float]]:
    """Tokens per second of each request in order of sending, without the first and last of every stream."""
    streams = seen.run.load.max_concurrency
    inner = [speed for request in seen.sent[streams:-streams] if (speed := _speed(request)) is not None]
    return inner[: len(inner) // 2], inner[(len(inner) + 1) // 2 :]


def _speed(request: RequestRecord) -> float | None:
    took_ms = e2e_ms(request)
    if request.error is not None or not took_ms or request.completion_tokens is None:
        return None
    return 1000 * request.completion_tokens / took_ms


def _tail(seen: Evidence) -> Answer:
    if not seen.run.load.closed_loop or seen.run.load.max_concurrency == 1 or not seen.window_s:
        return None
    few_s = _few_in_flight_s(seen.sent, HALF * seen.run.load.max_concurrency, seen.window_s)
    if few_s <= TAIL_SHARE * seen.window_s:
        return None
    return Fired(
        f"For {percent(few_s / seen.window_s)} of the window fewer than half of the {seen.run.load.max_concurrency} "
        f"streams had a request, while tokens per second count all of it{_without(seen)}."
    )


def _without(seen: Evidence) -> str:
    steady = seen.number("steady_output_tok_per_s")
    return "" if steady is None else f"; without that they are {steady:.4g} tok/s"


def _few_in_flight_s(requests: Sequence[RequestRecord], fewer_than: float, window_s: float) -> float:
    ends = [(request.end_s, -1) for request in requests if request.end_s is not None]
    begins = [(request.sent_s, 1) for request in requests if request.sent_s is not None]
    in_flight, at_s, few_s = 0, 0.0, 0.0
    for moment_s, step in [*sorted([*begins, *ends]), (window_s, 0)]:
        few_s += max(0.0, moment_s - at_s) if in_flight < fewer_than else 0.0
        in_flight, at_s = in_flight + step, max(at_s, moment_s)
    return few_s


def _percentiles(seen: Evidence) -> Answer:
    requests = len(seen.completed)
    weak = [q for q in PERCENTILES if requests * (100 - q) < 100 * BEYOND]
    if not weak or not requests:
        return None
    return Fired(
        f"{requests} answered requests leave fewer than {BEYOND} beyond {', '.join(f'p{q}' for q in weak)}: "
        f"{'they say' if len(weak) > 1 else 'it says'} little about other runs."
    )


CHECKS = (
    Check(
        name="drift_within_run",
        traps=(18, 20),
        severity="warning",
        looks_at=("sent_s", "end_s", "completion_tokens", "load"),
        threshold=f"median tokens a second of a request differ by a factor of {DRIFT_RATIO:g} between the two halves, "
        f"and by chance less often than {DRIFT_P:g} (Mann-Whitney). The first and the last request of every stream do "
        f"not count, and {DRIFT_REQUESTS} of each half are needed; ramps and traces are meant to change",
        why="Prompts come in random order, so both halves have the same work. A machine that heats up or is shared "
        "gives them different speeds.",
        advice="Repeat the run on a machine without other work; look at clocks and temperature in its telemetry.",
        look=_drift,
    ),
    Check(
        name="long_tail",
        traps=(18,),
        severity="note",
        looks_at=("sent_s", "end_s", "load.max_concurrency"),
        threshold=f"fewer than half of the streams of a closed loop were busy for more than {percent(TAIL_SHARE)} of "
        "the window",
        why="Total tokens over total time has the end in it, when few requests are left. Everybody publishes it that "
        "way, but the server could do more.",
        advice="Send more prompts per stream: with eight or more, the tail is short.",
        look=_tail,
    ),
    Check(
        name="few_requests",
        traps=(21,),
        severity="note",
        looks_at=("end_s", "error"),
        threshold=f"fewer than {BEYOND} requests beyond a percentile that is shown (p50, p90, p95, p99)",
        why="A percentile with one or two requests beyond it depends on their luck.",
        advice="Send more prompts (500 for p99), or compare means and medians only.",
        look=_percentiles,
    ),
)
