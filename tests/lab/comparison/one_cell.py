"""Two arms in a single cell."""

from __future__ import annotations

from collections.abc import Sequence

from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.samples import RunSample
from lab.metrics.definition import Better


def compare(
    baseline: Sequence[RunSample],
    candidate: Sequence[RunSample],
    better: Better,
    *,
    history: Sequence[Sequence[float]] = (),
) -> Comparison:
    return compare_cells([CellRuns(baseline, candidate)], better, history=history)[0]
