"""Histograms on a logarithmic scale: small, exact to half a per cent, and additive.

Averages of percentiles are not percentiles, but added histograms give the percentiles of any selection of runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

#: The largest relative error of a value read back.
RELATIVE_ERROR = 0.005
#: Each bucket reaches up to this times its lower bound.
GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
#: Smaller values (a nanosecond, in ms) count as zero, in a bucket of their own.
SMALLEST = 1e-6
ZERO_BUCKET = -10_000

#: How a value is read back, as text for the data dictionary. Bucket b holds GROWTH^(b-1) < value <= GROWTH^b.
VALUE_FORMULA = f"2 * pow({GROWTH!r}, bucket) / {GROWTH + 1!r}, or 0 for bucket {ZERO_BUCKET}"

Counts = Mapping[int, int]
#: Values counted at once: few enough to stay in the processor's cache, because new memory takes longer than logarithms.
_BLOCK = 16_384


def histogram(values: NDArray[np.float64]) -> dict[int, int]:
    """Count `values` (finite, not negative) by bucket. Raises ValueError for others."""
    if values.size and not (np.isfinite(values).all() and values.min() >= 0):
        raise ValueError("a histogram takes only finite values that are not negative")
    positive = values if values.size and values.min() >= SMALLEST else values[values >= SMALLEST]
    zeros = values.size - positive.size
    counts_of = {ZERO_BUCKET: zeros} if zeros else {}
    if positive.size:
        limits = _buckets(np.array([positive.min(), positive.max()]))
        lowest = int(limits[0]) - 1  # a logarithm in a long array may differ in its last bit from that in a short one
        counts = np.zeros(int(limits[1]) + 2 - lowest, dtype=np.int64)
        for start in range(0, positive.size, _BLOCK):
            counts += np.bincount(_buckets(positive[start : start + _BLOCK]) - lowest, minlength=counts.size)
        filled = np.flatnonzero(counts)
        counts_of |= dict(zip((filled + lowest).tolist(), counts[filled].tolist(), strict=True))
    return counts_of


def _buckets(positive: NDArray[np.float64]) -> NDArray[np.int64]:
    buckets: NDArray[np.int64] = np.ceil(np.log(positive) / math.log(GROWTH)).astype(np.int64)
    return buckets


def quantile(counts: Counts, q: float) -> float | None:
    """Return the `q` quantile (0 to 1), linear between neighbours like numpy's; None for an empty histogram."""
    buckets = sorted(counts)
    reached = np.cumsum([counts[bucket] for bucket in buckets])
    if not buckets:
        return None
    rank = q * float(reached[-1] - 1)
    below, above = (
        bucket_value(buckets[int(np.searchsorted(reached, whole, side="right"))])
        for whole in (math.floor(rank), math.ceil(rank))
    )
    return below + (above - below) * (rank - math.floor(rank))


def bucket_value(bucket: int) -> float:
    """Return the value that represents a bucket; off by at most RELATIVE_ERROR."""
    return 0.0 if bucket == ZERO_BUCKET else float(2 * GROWTH**bucket / (GROWTH + 1))


def cumulative(counts: Counts, most: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return rising values and the share (0 to 1) of all values not above each, in at most `most` steps.

    Steps at which the share grows least are left out; the last one stays.
    """
    buckets = sorted(counts)
    values = np.array([bucket_value(bucket) for bucket in buckets], dtype=np.float64)
    reached = np.cumsum(np.array([counts[bucket] for bucket in buckets], dtype=np.float64))
    if values.size <= most:
        return values, reached / reached[-1] if values.size else reached
    shares = reached / reached[-1]
    steps = np.unique(np.searchsorted(shares, np.linspace(shares[0], 1.0, most)).clip(0, values.size - 1))
    return values[steps], shares[steps]
