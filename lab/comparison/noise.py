"""How much runs of the same cell differ: a single repeat cannot show it, earlier repeats can."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from lab.comparison.samples import Array

#: With less history, the variances of cells cannot be distinguished from their own uncertainty.
LEAST_CELLS, LEAST_DF = 3, 6


@dataclass(frozen=True)
class RunNoise:
    """The standard deviation of the natural logarithm of a metric among runs of one cell, and how well it is known.

    0.03 means that runs differ by about 3 %. An infinite `df` claims to know it exactly.
    """

    sd_log: float
    df: float
    source: str


def from_history(cells: Sequence[Sequence[float]]) -> RunNoise | None:
    """Estimate the noise of one metric on one machine from earlier repeats, cell by cell; None if there are too few.

    Each cell's own variance is one draw around a common one; the scatter of the variances says with how many degrees
    of freedom the common one speaks for the next cell. Smyth 2004, section 6.2 (limma's fitFDist).
    """
    logs = [np.log(values) for values in cells if len(values) >= 2 and min(values) > 0]
    variances = np.array([values.var(ddof=1) for values in logs])
    dfs = np.array([values.size - 1 for values in logs], dtype=np.float64)
    known = variances > 0
    if known.sum() < LEAST_CELLS or dfs[known].sum() < LEAST_DF:
        return None
    variance, df = _common_variance(variances[known], dfs[known])
    return RunNoise(math.sqrt(variance), df, f"{known.sum()} cells measured {int(dfs.sum()) + len(dfs)} times before")


def _common_variance(variances: Array, dfs: Array) -> tuple[float, float]:
    centred = np.log(variances) - special.digamma(dfs / 2) + np.log(dfs / 2)
    scatter = float(centred.var(ddof=1) - special.polygamma(1, dfs / 2).mean())
    most = float(dfs.sum())  # the history cannot know the variance better than its runs do
    if scatter <= float(special.polygamma(1, most / 2)):
        return float((variances * dfs).sum() / most), most
    half = float(optimize.brentq(lambda x: float(special.polygamma(1, x)) - scatter, 1e-3, most / 2))
    return math.exp(float(centred.mean()) + float(special.digamma(half)) - math.log(half)), 2 * half
