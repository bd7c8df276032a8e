"""Tables of ratios (for example dataset by pattern), and one ratio for a whole sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.samples import RunSample
from lab.comparison.verdict import Judged, verdicts
from lab.metrics.definition import Better

Arms = tuple[Sequence[RunSample], Sequence[RunSample]]  # baseline, candidate


@dataclass(frozen=True)
class RatioTable:
    """`cells` by (row, column), for example dataset and pattern; pairs that were not measured are absent.

    `gmeans_by_row`, `gmeans_by_column` and `gmean` are geometric means of ratios, None if one of them is unknown.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: Mapping[tuple[str, str], Judged]
    gmeans_by_row: Mapping[str, float | None]
    gmeans_by_column: Mapping[str, float | None]
    gmean: float | None


def ratio_tables(
    tables: Mapping[str, Mapping[tuple[str, str], Comparison]], *, strict: bool = False
) -> dict[str, RatioTable]:
    """Build tables that are read together: their verdicts are corrected for the cells of all of them.

    Rows and columns keep the order in which they first appear.
    """
    every = [(name, key) for name, cells in tables.items() for key in cells]
    judged_cells = verdicts([tables[name][key] for name, key in every], strict=strict)
    judged = dict(zip(every, judged_cells, strict=True))
    return {
        name: _table({key: Judged(comparison, judged[name, key]) for key, comparison in cells.items()})
        for name, cells in tables.items()
    }


def _table(cells: Mapping[tuple[str, str], Judged]) -> RatioTable:
    rows, columns = (tuple(dict.fromkeys(key[side] for key in cells)) for side in (0, 1))
    return RatioTable(
        rows,
        columns,
        cells,
        {row: gmean([cell.comparison for key, cell in cells.items() if key[0] == row]) for row in rows},
        {column: gmean([cell.comparison for key, cell in cells.items() if key[1] == column]) for column in columns},
        gmean([cell.comparison for cell in cells.values()]),
    )


def gmean(comparisons: Sequence[Comparison]) -> float | None:
    """Return the geometric mean of the ratios, or None if one is unknown or there are none."""
    ratios = [None if comparison.ratio is None else comparison.ratio.value for comparison in comparisons]
    values = [ratio for ratio in ratios if ratio is not None]
    return float(np.exp(np.mean(np.log(values)))) if values and len(values) == len(ratios) else None


def sweep(cells: Sequence[Arms], better: Better, *, control: bool = False) -> Comparison:
    """Compare a whole sweep: in each block the geometric mean over its cells, then the paired blocks.

    Effects shared by the runs of one engine start are part of the scatter of the blocks, so cells need not be
    independent; an arm's runs in a block share one start, which several blocks may share. Only blocks in which every
    cell has both arms count. `control`: both arms are identical.
    """
    baseline = _one_per_block([runs for runs, _ in cells])
    candidate = _one_per_block([runs for _, runs in cells])
    return compare_cells([CellRuns(baseline, candidate, control=control)], better)[0]


def _one_per_block(cells: Sequence[Sequence[RunSample]]) -> list[RunSample]:
    """Return one sample per block. Raises ValueError if a cell has two runs in a block."""
    usable = [run for runs in cells for run in runs if run.value is not None and run.value > 0]
    by_block = {run.block: [other for other in usable if other.block == run.block] for run in usable}
    if any(len(runs) > len(cells) for runs in by_block.values()):
        raise ValueError("two runs of one arm in the same block: choose one of them")
    return [
        RunSample(
            "",
            runs[0].arm,
            block,
            float(np.exp(np.mean([np.log(run.value or np.nan) for run in runs]))),
            launch=runs[0].launch,
            until_decided=any(run.until_decided for run in runs),
        )
        for block, runs in by_block.items()
        if len(runs) == len(cells)
    ]
