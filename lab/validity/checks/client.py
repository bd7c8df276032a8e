"""Checks that the measuring client kept up, and that no other client used the server."""

from __future__ import annotations

import numpy as np

from lab.metrics.latency import send_delay_ms
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.evidence import Evidence
from lab.validity.words import ms, percent

#: p99 lag of the event loop: above the first it shows in percentiles of a fast engine; above the second in any, if it
#: is also more than a share of the median TTFT and not a single hiccup.
LAG_WARNING_MS, LAG_INVALID_MS, LAG_OF_TTFT, LAG_SECONDS = 20, 50, 0.1, 3
#: The longest delay of sending, not counting the wait for a free stream.
LATE_WARNING_MS, LATE_INVALID_MS = 50, 500
#: Share of one processor used by the client's thread.
BUSY_WARNING, BUSY_INVALID = 0.7, 0.95
#: Mean wait for a free stream, as a share of the mean TTFT that does not count it.
WAIT_OF_TTFT = 0.1
#: Samples in which the engine worked on more requests than the client may send; fewer if the window has no more.
STRANGE_SAMPLES = 2


def _lag(evidence: Evidence) -> Answer:
    if evidence.run.client is None:
        return Missing("the client's own lag")
    p99_ms, ttft_ms = evidence.run.client.loop_lag_p99_ms, evidence.number("ttft_p50_ms")
    if p99_ms <= LAG_WARNING_MS:
        return None
    grave = p99_ms > LAG_INVALID_MS and (ttft_ms is None or p99_ms > LAG_OF_TTFT * ttft_ms)
    late_seconds = sum(sample.loop_lag_ms > LAG_INVALID_MS for sample in evidence.samples)
    beside = "" if ttft_ms is None else f", where the median TTFT is {ms(ttft_ms)}"
    return Fired(
        f"The client's event loop was up to {ms(p99_ms)} late (p99; worst {ms(evidence.run.client.loop_lag_max_ms)})"
        f"{beside}: every latency may include that much of the client's own.",
        "invalid" if grave and (late_seconds >= LAG_SECONDS or not evidence.samples) else "warning",
    )


def _late(evidence: Evidence) -> Answer:
    late_ms = evidence.run.client.late_send_max_ms if evidence.run.client else None
    if late_ms is None:
        return Missing("how late requests were sent")
    if late_ms <= LATE_WARNING_MS:
        return None
    return Fired(
        f"A request left the client {ms(late_ms)} after its intended moment.",
        "invalid" if late_ms > LATE_INVALID_MS else "warning",
    )


def _busy(evidence: Evidence) -> Answer:
    if evidence.run.client is None or not evidence.window_s:
        return Missing("the client's own processor time")
    share = evidence.run.client.cpu_s / evidence.window_s
    if share <= BUSY_WARNING:
        return None
    return Fired(
        f"The client itself was busy for {percent(share)} of the window.",
        "invalid" if share > BUSY_INVALID else "warning",
    )


def _waiting(evidence: Evidence) -> Answer:
    if evidence.run.load.closed_loop:
        return None
    waits_ms = send_delay_ms(evidence.completed)
    waits_ms = waits_ms[~np.isnan(waits_ms)]
    ttft_ms = evidence.number("ttft_mean_ms")
    if not waits_ms.size or ttft_ms is None:
        return Missing("the times of sending and of the first token")
    mean_ms = float(waits_ms.mean())
    if mean_ms <= max(WAIT_OF_TTFT * ttft_ms, LAG_WARNING_MS):
        return None
    return Fired(
        f"Requests waited {ms(mean_ms)} in the client for a free stream on average (at most {ms(waits_ms.max())}); "
        f"TTFT, {ms(ttft_ms)} on average, does not count it."
    )


def _shared(evidence: Evidence) -> Answer:
    streams = evidence.run.load.max_concurrency
    in_flight = [
        sample.engine_running + (sample.engine_waiting or 0)
        for sample in evidence.samples
        if sample.engine_running is not None
    ]
    if not in_flight:
        return Missing("how many requests the engine worked on")
    strange = [requests for requests in in_flight if requests > streams]
    if len(strange) < min(STRANGE_SAMPLES, len(in_flight)):
        return None
    return Fired(
        f"The engine had up to {max(strange)} requests at once in {len(strange)} of {len(in_flight)} "
        f"{'second' if len(in_flight) == 1 else 'seconds'}, while "
        f"this run sends {streams} at most: somebody else used the server."
    )


CHECKS = (
    Check(
        name="client_lag",
        traps=(17,),
        severity="invalid",
        looks_at=("client.loop_lag_p99_ms", "loop_lag_ms", "ttft_p50_ms"),
        threshold=f"a warning above {LAG_WARNING_MS} ms (p99); invalid above {LAG_INVALID_MS} ms if that also "
        f"exceeds {percent(LAG_OF_TTFT)} of the median TTFT and {LAG_SECONDS} seconds had such a lag",
        why="A late client records every chunk late. An idle loop on a slow two-core machine lags 2 to 17 ms.",
        advice="Leave the client a core of its own, lower the concurrency, or stop other work.",
        rule=_lag,
    ),
    Check(
        name="late_sends",
        traps=(16, 17),
        severity="invalid",
        looks_at=("client.late_send_max_ms",),
        threshold=f"a warning above {LATE_WARNING_MS} ms, invalid above {LATE_INVALID_MS} ms; waiting for a free "
        "stream does not count",
        why="Requests that leave late form bursts that the load does not have.",
        advice="Keep the client's processor free, or lower the request rate.",
        rule=_late,
    ),
    Check(
        name="client_busy",
        traps=(17,),
        severity="invalid",
        looks_at=("client.cpu_s", "duration_s"),
        threshold=f"a warning above {percent(BUSY_WARNING)} of one processor, invalid above {percent(BUSY_INVALID)}",
        why="The client is one thread. Without headroom the run measures the client.",
        advice="Lower the concurrency, or measure from a faster host.",
        rule=_busy,
    ),
    Check(
        name="waiting_in_client",
        traps=(16,),
        severity="warning",
        looks_at=("intended_send_s", "sent_s", "ttft_mean_ms", "load"),
        threshold=f"a mean wait above {percent(WAIT_OF_TTFT)} of the mean TTFT and {LAG_WARNING_MS} ms, for loads "
        "with a request rate or a trace",
        why="A concurrency limit on top of a request rate hides the wait in the client.",
        advice="Read ttft_from_intended_ms, which counts it, or raise max_concurrency.",
        rule=_waiting,
    ),
    Check(
        name="server_shared",
        traps=(10,),
        severity="invalid",
        looks_at=("engine_running", "engine_waiting", "load.max_concurrency"),
        threshold=f"more requests in the engine than the load has streams, in {STRANGE_SAMPLES} samples, or in the "
        "only one of a two-second window",
        why="Everybody who uses the engine shares its counters and its time.",
        advice="Measure on a server that nobody else uses.",
        rule=_shared,
    ),
)
