"""Cells that were measured on the same engine starts: how much of what they show is the same noise.

A start that happens to be fast is fast at every load. So where starts differ by more than the runs on them, ten cells
of one arm know hardly more of the noise than one, and must not count as ten.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from lab.comparison.samples import Array, connected


def repetitions(starts: Sequence[AbstractSet[Hashable]], deviations: Sequence[Array]) -> list[float]:
    """Return for each cell in how many cells its noise is found again: 1 if the runs' own noise is all there is.

    `starts` are those of the candidate's engine, and `deviations` those of the cell's log ratios from their mean, block
    by block (from 0 of a control). If two cells on the same starts correlate by r, their variances do by r squared.
    """
    groups = connected([set(starts_of_block) for starts_of_block in starts])
    again = _correlation([[deviations[place] for place in group] for group in groups]) ** 2
    factors = [1.0] * len(starts)
    for group in groups:
        for place in group:
            factors[place] = 1 + again * (len(group) - 1)
    return factors


def _correlation(groups: Sequence[Sequence[Array]]) -> float:
    """The mean correlation of cells on the same starts, over all pairs with as many blocks; 0 at least."""
    totals, counts = [0.0, 0.0], [0, 0]  # of one degree of freedom, and of more
    for group in groups:
        for blocks in {deviations.size for deviations in group}:
            alike = [deviations for deviations in group if deviations.size == blocks]
            directions = np.array(
                [deviations / norm for deviations in alike if (norm := math.sqrt(float((deviations**2).sum()))) > 0]
            )
            if len(directions) > 1:
                totals[blocks > 2] += (float((directions.sum(axis=0) ** 2).sum()) - len(directions)) / 2
                counts[blocks > 2] += len(directions) * (len(directions) - 1) // 2
    signs, mean = (total / max(count, 1) for total, count in zip(totals, counts, strict=True))
    # One degree of freedom leaves only signs, whose mean is 2 / pi times the arcsine of the correlation.
    weighed = counts[0] * math.sin(math.pi / 2 * signs) + counts[1] * mean
    return max(weighed / max(sum(counts), 1), 0.0)
