"""When each request is meant to leave: pure and seeded, so that every arm gets the same arrivals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.study import Load


def intended_send_s(load: Load, seed: int) -> NDArray[np.float64]:
    """Offset in seconds of each of `num_prompts` requests from the start of the window, never decreasing.

    Without a rate (closed loop) every offset is 0: a request leaves as soon as a stream is free. With one, the gaps are
    gamma distributed with shape `burstiness` (1 is Poisson; the gaps' coefficient of variation is 1/sqrt(burstiness)),
    and scaled so that the last request leaves at exactly num_prompts / rate, as `vllm bench serve` does: the load
    offered is then the same for every seed.
    """
    if load.request_rate_rps is None:
        return np.zeros(load.num_prompts)
    gaps = np.random.default_rng(seed).gamma(load.burstiness, size=load.num_prompts)
    if gaps.max() == 0.0:  # an extreme burstiness underflows: its limit is one long gap, then everything at once
        gaps[0] = 1.0
    offsets: NDArray[np.float64] = np.cumsum(gaps / gaps.max())
    offsets *= load.num_prompts / load.request_rate_rps / offsets[-1]
    return offsets
