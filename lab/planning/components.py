"""How much of a ratio's scatter comes from engine starts, from runs and from requests.

Each level is random within the one above it, and its variance is estimated by the method of moments of a nested
analysis of variance (Searle, Casella & McCulloch 1992, Variance Components, 3.6), as Kalibera & Jones 2013
(doi:10.1145/2464157.2464160) do for benchmarks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

#: With fewer degrees of freedom for engine starts than this, nothing is predicted.
LEAST_DF = 6


@dataclass(frozen=True)
class PastRatio:
    """A candidate's ratio to its baseline in one block of a cell that was measured earlier."""

    cell: Hashable  # of one study: candidate, workload and load
    launches: Hashable  # the engine starts of both arms
    log_ratio: float
    num_prompts: int | None = None  # None if the metric does not follow from the requests


@dataclass(frozen=True)
class Components:
    """Variances of a log ratio. Each is at least 0; None is unknown, which is not 0."""

    start: float | None  # of a pair of engine starts; None if no start had two runs: then it is part of `run`
    run: float  # of a pair of runs on these, with the prompts that they had
    request: float | None  # of one prompt's share in a pair of runs; divided by the number of prompts
    num_prompts: float | None  # of the runs measured: the harmonic mean
    gains: tuple[float, ...]  # the log ratio of each cell, averaged over its engine starts

    def of_block(self, runs_per_start: int, num_prompts: float) -> float | None:
        """Return the variance of the mean log ratio of one pair of engine starts; None if it is unknown."""
        if self.start is None:
            return self._run(num_prompts) if runs_per_start == 1 else None
        return self.start + self._run(num_prompts) / runs_per_start

    def _run(self, num_prompts: float) -> float:
        """Return a run's variance: the requests' part depends on the number of prompts, the rest does not."""
        if self.request is None or self.num_prompts is None:
            return self.run
        request_part = min(self.request / self.num_prompts, self.run)
        return self.run - request_part + request_part * self.num_prompts / num_prompts


def components(past: Sequence[PastRatio], request: float | None = None) -> Components | None:
    """Estimate the variances; None with fewer than LEAST_DF degrees of freedom for engine starts.

    Cells on a single pair of starts show how runs differ, but not how starts do. `request` is measured apart, from the
    latencies of the requests.
    """
    cells: dict[Hashable, dict[Hashable, list[float]]] = {}
    for ratio in past:
        cells.setdefault(ratio.cell, {}).setdefault(ratio.launches, []).append(ratio.log_ratio)
    starts = [np.array(values) for launches in cells.values() for values in launches.values()]
    runs_df = sum(values.size - 1 for values in starts)
    repeated = [list(launches.values()) for launches in cells.values() if len(launches) > 1]
    starts_df = sum(len(launches) - 1 for launches in repeated)
    if starts_df < LEAST_DF:
        return None
    between = sum(np.var([np.mean(runs) for runs in launches], ddof=1) * (len(launches) - 1) for launches in repeated)
    total = float(between / starts_df)
    gains = tuple(float(np.mean([np.mean(runs) for runs in launches.values()])) for launches in cells.values())
    prompt_counts = [ratio.num_prompts for ratio in past if ratio.num_prompts]
    prompts = len(prompt_counts) / sum(1 / count for count in prompt_counts) if prompt_counts else None
    if runs_df < LEAST_DF:
        return Components(None, total, request, prompts, gains)
    within = float(sum(((values - values.mean()) ** 2).sum() for values in starts) / runs_df)
    # A mean of m runs has 1 / m of their variance: weighted as the cells are.
    shares = sum(np.mean([1 / len(runs) for runs in launches]) * (len(launches) - 1) for launches in repeated)
    return Components(max(total - within * float(shares / starts_df), 0.0), within, request, prompts, gains)
