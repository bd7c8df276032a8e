"""Exact percentiles of many values, without ordering all of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

#: Fewer values are ordered faster than they are counted.
_MANY = 5_000
#: Values are counted by the upper bits of their representation: sign, exponent, and eight bits after the leading one.
#: Numbers that are not negative have the order of their representations, so each count covers a stretch of values.
_LOWER_BITS = 44
_NOT_FINITE = 0x7FF << 52 >> _LOWER_BITS

Floats = NDArray[np.float64]


def percentiles(values: Floats, percents: Sequence[float]) -> list[float]:
    """Return the same as `np.percentile(values, percents)`, several times as fast for very many values."""
    stretches = values.view(np.int64) >> _LOWER_BITS
    if values.size < _MANY or (lowest := stretches.min()) < 0 or stretches.max() >= _NOT_FINITE:
        return [float(value) for value in np.percentile(values, percents)]
    places = (values.size - 1) * np.true_divide(percents, 100)
    below = np.floor(places).astype(np.int64)
    ranks = np.unique(np.concatenate((below, np.minimum(below + 1, values.size - 1))))
    stretches -= lowest
    ordered = dict(zip(ranks.tolist(), _of_ranks(values, stretches, ranks).tolist(), strict=True))
    return [_between(place, ordered) for place in places.tolist()]


def _of_ranks(values: Floats, stretches: NDArray[np.int64], ranks: NDArray[np.int64]) -> Floats:
    """Return the values at these places of the sorted values: only stretches with one of them need to be ordered."""
    counts = np.bincount(stretches)
    wanted = np.searchsorted(np.cumsum(counts), ranks, side="right")
    is_wanted = np.zeros(counts.size, dtype=np.bool_)
    is_wanted[wanted] = True
    left_out = np.cumsum(np.where(is_wanted, 0, counts))[wanted]
    places = ranks - left_out
    quantiles: Floats = np.partition(values[is_wanted[stretches]], places)[places]
    return quantiles


def _between(place: float, ordered: dict[int, float]) -> float:
    """Interpolate as NumPy does, from the nearer of the two neighbours."""
    below = int(place)
    share, first = place - below, ordered[below]
    last = ordered.get(below + 1, first)
    return last - (last - first) * (1 - share) if share >= 0.5 else first + (last - first) * share
