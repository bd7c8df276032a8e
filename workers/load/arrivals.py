"""The intended send time of each request: a pure, seeded function, so that every arm gets the same arrivals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lab.study import Load

Offsets = NDArray[np.float64]


def intended_send_s(load: Load, seed: int, trace_s: Sequence[float] | None = None) -> Offsets:
    """Return each request's offset in seconds from the start of the window, never decreasing.

    There are `num_prompts` of them, or fewer if the load's duration ends before: a request that is not due by then is
    no part of the run. Without a rate (closed loop) every offset is 0: a request leaves as soon as a stream is free.
    `trace_s`: the arrival times of the prompts, in their order; raises ValueError if a trace load has none.
    """
    offsets = _arrivals(load, seed, trace_s)
    return offsets if load.duration_s is None or load.closed_loop else offsets[offsets <= load.duration_s]


def _arrivals(load: Load, seed: int, trace_s: Sequence[float] | None) -> Offsets:
    if load.arrivals == "trace":
        if trace_s is None or len(trace_s) != load.num_prompts:
            raise ValueError("a trace load needs one arrival time per prompt")
        return _trace(load, np.asarray(trace_s, dtype=np.float64))
    if load.request_rate_rps is None:
        return np.zeros(load.num_prompts)
    if load.arrivals == "constant":
        return np.arange(1, load.num_prompts + 1) / load.request_rate_rps
    if load.ramp_s is not None and load.ramp_to_rps is not None:
        return _ramp(load.num_prompts, load.request_rate_rps, load.ramp_to_rps, load.ramp_s)
    return _gamma(load, load.request_rate_rps, seed)


def _gamma(load: Load, rate_rps: float, seed: int) -> Offsets:
    """Gaps of shape `burstiness` (1 is Poisson; their coefficient of variation is 1/sqrt(burstiness)), scaled so that
    the last request leaves at exactly num_prompts / rate, as in `vllm bench serve`: so the offered load is the same for
    every seed.
    """
    gaps = np.random.default_rng(seed).gamma(load.burstiness, size=load.num_prompts)
    if gaps.max() == 0.0:  # an extreme burstiness underflows: its limit is one long gap, then everything at once
        gaps[0] = 1.0
    offsets: Offsets = np.cumsum(gaps / gaps.max())
    offsets *= load.num_prompts / rate_rps / offsets[-1]
    return offsets


def _ramp(count: int, from_rps: float, to_rps: float, ramp_s: float) -> Offsets:
    """The n-th request leaves when n requests are due at a rate that changes linearly: n = from t + slope t^2 / 2.

    Solved in a form without cancellation, so that a ramp from a rate to itself is constant.
    """
    due = np.arange(1, count + 1, dtype=np.float64)
    slope = (to_rps - from_rps) / ramp_s
    root = np.sqrt(np.maximum(from_rps**2 + 2 * slope * due, 0.0))
    offsets: Offsets = 2 * due / (from_rps + root)
    return offsets


def _trace(load: Load, times_s: Offsets) -> Offsets:
    """As recorded, from the first arrival on; with a rate, scaled to end at num_prompts / rate."""
    if not np.isfinite(times_s).all() or (np.diff(times_s) < 0).any():
        raise ValueError("the arrival times of a trace must be finite and in order")
    offsets: Offsets = times_s - times_s[0]
    if load.request_rate_rps is not None and offsets[-1] > 0:
        offsets *= load.num_prompts / load.request_rate_rps / offsets[-1]
    return offsets
