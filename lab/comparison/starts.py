"""How much the starts of an engine differ: the level above rounds, and above the blocks of a whole sweep.

What one start shifts, all its windows share, so no number of windows averages it out. All arms and cells of a study
tell of it together. While they have few degrees of freedom, they are combined with a wide prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

#: Before a study, starts are assumed to differ by this much, as if this many degrees of freedom had shown it. Chosen by
#: simulation, so that identical arms are called in at most 5 % of tables where starts differ by 0, 1 or 3 %, on one
#: start and on several (tests/lab/comparison/simulations).
PRIOR_SD, _PRIOR_DF = 0.03, 8.0
#: With this many degrees of freedom of its own, a study needs no prior.
_ENOUGH_DF = 6.0
#: Earlier cells on the same starts cannot be told apart, so six count for one; and all together at most for this many.
_CELLS_A_START, _MOST_HISTORY_DF = 6.0, 3.0
#: Sums of squares of arms that share a baseline correlate by the square of one half.
_SHARED = 0.25


@dataclass(frozen=True)
class StartScatter:
    """The variance of the logarithm of one arm's number from start to start, how well it is known, and from what."""

    variance: float
    df: float
    source: str


@dataclass(frozen=True)
class Lying:
    """How far apart the starts of one candidate lie, in one cell or over all: half the sum of squares of its log
    ratios about their mean, so that it is of one arm's starts, and the part of it that is noise of their windows.
    """

    squares: float
    noise: float
    df: int


def apart(by_start: Sequence[float], noise: float) -> Lying:
    """Return how far log ratios on several starts lie apart. `noise` is the variance that windows give one of them."""
    logs = np.array(by_start, dtype=np.float64)
    df = max(logs.size - 1, 0)
    return Lying(float(((logs - logs.mean()) ** 2).sum()) / 2 if df else 0.0, noise / 2 * df, df)


def start_scatter(groups: Sequence[Sequence[Sequence[Lying]]], history: Sequence[Sequence[float]] = ()) -> StartScatter:
    """Return how much starts differ. Of each group of arms on common starts: by arm, its cells.

    Cells of an arm share its starts, so they add no degrees of freedom. `history`: see `compare_cells`.
    """
    cells = [cell for group in groups for arm in group for cell in arm]
    count = sum(cell.df for cell in cells)
    seen = max(sum(cell.squares - cell.noise for cell in cells) / count, 0.0) if count else 0.0
    df = sum(
        sum(max((cell.df for cell in arm), default=0) for arm in group) / (1 + _SHARED * (len(group) - 1))
        for group in groups
    )
    if df >= _ENOUGH_DF:
        return StartScatter(seen, df, _source(seen, "this study's own"))
    prior, prior_df, earlier = _before(history)
    variance = (prior_df * prior + df * seen) / (prior_df + df)
    named = " and ".join(part for part in (earlier, "this study's own" if df else "") if part)
    return StartScatter(variance, prior_df + df, _source(variance, named))


def _before(history: Sequence[Sequence[float]]) -> tuple[float, float, str]:
    """Return variance, degrees of freedom and source before the study.

    Numbers of earlier starts hold the drift of the machine and the noise of runs besides, so they can only show that
    starts differ less than the prior says, never that they differ more.
    """
    logs = [np.log(values) for values in history if len(values) >= 2 and min(values) > 0]
    dfs = sum(values.size - 1 for values in logs)
    if dfs:
        variance = sum(float(((values - values.mean()) ** 2).sum()) for values in logs) / dfs
        if variance < PRIOR_SD**2:
            df = min(dfs / _CELLS_A_START, _MOST_HISTORY_DF)
            together = (_PRIOR_DF * PRIOR_SD**2 + df * variance) / (_PRIOR_DF + df)
            return together, _PRIOR_DF + df, "a wide prior and earlier starts"
    return PRIOR_SD**2, _PRIOR_DF, "a wide prior"


def _source(variance: float, named: str) -> str:
    return f"engine starts that differ by {100 * variance**0.5:.1f} % ({named})"
