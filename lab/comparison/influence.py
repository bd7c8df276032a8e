"""How much each request moves its run's number: the influence function, of a mean and of a percentile.

Each takes requests of shape (..., prompts, blocks) and returns the runs' number, of shape (..., 1, blocks), and the
influences, of the shape of the requests. Their variance over the prompts, divided by the number of prompts, is the
variance of the number. Hampel 1974, doi:10.1080/01621459.1974.10482962.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from lab.comparison.samples import Array

Influence = Callable[[Array], tuple[Array, Array]]

_LATENCY = re.compile(r"(ttft|tpot|e2e)_(mean|p(\d+))_ms")
#: In a closed loop, requests in flight / mean E2E latency is requests per second (Little 1961), so these follow it.
_THROUGHPUT = {"output_tok_per_s", "total_tok_per_s", "request_per_s"}


@dataclass(frozen=True)
class Follows:
    """The `column` of the view `requests` that a run's number summarises, and its `influence` function."""

    column: str
    influence: Influence


def follows(metric: str, *, closed_loop: bool) -> Follows | None:
    """Return the requests' column behind a metric; None if the metric is compared over repeats alone.

    ITL and ICL have many values per request and are not paired by prompt.
    """
    if match := _LATENCY.fullmatch(metric):
        q = match[3]
        return Follows(f"{match[1]}_ms", mean if q is None else percentile(int(q) / 100))
    if closed_loop and (metric in _THROUGHPUT or metric.startswith("cost")):
        return Follows("e2e_ms", mean)
    return None


def mean(requests: Array) -> tuple[Array, Array]:
    means = requests.mean(axis=-2, keepdims=True)
    return means, requests - means


def percentile(q: float) -> Influence:
    """Influence on the quantile `q` (0 to 1): (q - [x <= Q]) / f(Q), with the density f by the Hall-Sheather rule."""

    def influence(requests: Array) -> tuple[Array, Array]:
        width = _hall_sheather(q, requests.shape[-2])
        below, above = max(q - width, 0.0), min(q + width, 1.0)
        low, quantile, high = np.quantile(requests, (below, q, above), axis=-2, keepdims=True)
        one_over_density = (high - low) / (above - below)
        return quantile, (q - (requests <= quantile)) * one_over_density

    return influence


@functools.lru_cache(64)
def _hall_sheather(q: float, count: int) -> float:
    """Half the width over which the quantile function is differenced: Hall & Sheather 1988 (also Koenker 2005, 3.4)."""
    z = float(special.ndtri(q))
    density = math.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    steep = 1.5 * density**2 / (2 * z**2 + 1)
    return float(count ** (-1 / 3) * special.ndtri(0.975) ** (2 / 3) * steep ** (1 / 3))
