"""Whether two arms draw their answers from the same distribution: many short completions of one prompt, sampled.

Speculation with rejection sampling promises the target's own distribution, which no single answer shows. The
completions are counted as they are; how far the two arms' counts lie apart is compared with random divisions of the
same completions (a permutation test), which holds its level whatever the distribution is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lab.metrics.number_format import percentage

#: An arm with fewer completions than this is not tested.
LEAST = 50
#: The level of the test, and how many random divisions it takes.
LEVEL, DIVISIONS = 0.05, 2000
#: The share of completions that another distribution would have replaced, by which the stated power is computed.
REPLACED = 0.1
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Difference:
    """The test of one prompt. `distance` is the total variation between the two samples, 0 to 1.

    `power` is the chance of noticing that REPLACED of an arm's completions come evenly from all that were seen.
    """

    p: float
    distance: float
    baseline: int  # completions
    candidate: int
    kinds: int  # different ones
    power: float

    @property
    def differs(self) -> bool:
        return self.p < LEVEL

    @property
    def sentence(self) -> str:
        word = "another distribution" if self.differs else "no other distribution found"
        return (
            f"{word}: p = {self.p:.2g}, {self.kinds} kinds of completions in {self.baseline} and {self.candidate}; "
            f"{percentage(REPLACED)} replaced would be noticed with a chance of {percentage(self.power)}"
        )


def difference(baseline: Sequence[str], candidate: Sequence[str], seed: int = 0) -> Difference | None:
    """Test whether two samples of completions have the same distribution; None with too few of them."""
    if min(len(baseline), len(candidate)) < LEAST:
        return None
    counted = Counter(baseline), Counter(candidate)
    kinds = sorted(counted[0] | counted[1])
    ours, theirs = (np.array([counts[kind] for kind in kinds]) for counts in counted)
    random = np.random.default_rng(seed)
    pooled = ours + theirs
    divisions = random.multivariate_hypergeometric(pooled, len(candidate), DIVISIONS, method="marginals")
    by_chance = _apart(pooled - divisions, divisions)
    found = float(_apart(ours, theirs))
    p = (1 + int((by_chance >= found * (1 - 1e-9)).sum())) / (1 + DIVISIONS)
    distance = float(np.abs(ours / len(baseline) - theirs / len(candidate)).sum()) / 2
    chances = pooled / pooled.sum()
    other = (1 - REPLACED) * chances + REPLACED / pooled.size
    drawn = random.multinomial(len(baseline), chances, DIVISIONS), random.multinomial(len(candidate), other, DIVISIONS)
    power = float((_apart(*drawn) > float(np.quantile(by_chance, 1 - LEVEL))).mean())
    return Difference(p, distance, len(baseline), len(candidate), pooled.size, power)


def _apart(ours: Counts, theirs: Counts) -> Any:
    """Return Pearson's statistic of two samples, for one division or for each of many."""
    sizes = ours.sum(axis=-1, keepdims=True), theirs.sum(axis=-1, keepdims=True)
    both = np.maximum(ours + theirs, 1)
    return ((ours / sizes[0] - theirs / sizes[1]) ** 2 / both).sum(axis=-1)
