"""Tables of ratios (for example dataset by pattern), and one ratio for a whole sweep."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lab.comparison.compare import CellRuns, Comparison, exponential, launches_of
from lab.comparison.effect import CONFIDENCE, Effect
from lab.comparison.samples import Array, RunSample, averaged, by_block, connected
from lab.comparison.spread import Spread, half_width, over_blocks, satterthwaite
from lab.comparison.starts import StartScatter, apart, start_scatter
from lab.comparison.verdict import Judged, verdicts
from lab.metrics.definition import Better
from lab.metrics.number_format import counted


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


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Log ratios of the blocks in which every cell has both arms, averaged over engine starts: (cells, starts)."""

    logs: Array
    repeats: int
    until_decided: bool

    @property
    def left(self) -> float:
        """Return the variance of one cell's log ratio without what its arm's cells have in common at a start."""
        centred = self.logs - self.logs.mean(axis=0)
        centred = centred - centred.mean(axis=1, keepdims=True)
        cells, starts = self.logs.shape
        return float((centred**2).sum() / ((cells - 1) * (starts - 1)))

    @property
    def is_two_way(self) -> bool:
        """Whether there are enough cells and starts to tell the noise of runs from that of starts."""
        return bool(min(self.logs.shape) > 1)


def starts_of_means(arms: Iterable[Sequence[CellRuns]]) -> StartScatter:
    """Return how much engine starts differ, from what the means over each arm's cells do from start to start."""
    of_arms = [(cells, blocks) for cells in arms if (blocks := _blocks(cells)).is_two_way]
    lying = [apart(blocks.logs.mean(axis=0).tolist(), blocks.left / len(blocks.logs)) for _, blocks in of_arms]
    groups = connected([set().union(*map(launches_of, cells)) for cells, _ in of_arms])
    return start_scatter([[[lying[index]] for index in group] for group in groups])


def sweep(
    cells: Sequence[CellRuns], comparisons: Sequence[Comparison], better: Better, starts: StartScatter | None = None
) -> Comparison:
    """Compare one arm over a whole sweep: the mean of the cells' log ratios. `comparisons` are those of the cells.

    Of cells measured in rounds, the rounds' noise averages out over the cells, and that of the starts does not. Of
    others only blocks in which every cell has both arms count; `starts` is what the whole table shows of them
    (`starts_of_means`), and of this arm alone if None. There a mean is also at least as certain as its cells are on
    average. Raises ValueError if a cell has two runs in a block.
    """
    control = all(cell.control for cell in cells)
    if all(comparison.starts for comparison in comparisons):
        return _of_rounds(comparisons, control=control)
    blocks = _blocks(cells)
    count = blocks.logs.shape[1]
    basis = f"{counted(blocks.repeats, 'repeat')}"
    if count < blocks.repeats:
        basis += f" on {counted(count, 'engine start')}"
    effect = None
    if count:
        around, source = _spread(blocks, comparisons, starts or starts_of_means([cells]))
        effect, basis = Effect(float(blocks.logs.mean()), around), basis + source
    return Comparison(
        better,
        count,
        None,
        None if effect is None else exponential(effect.interval()),
        None,
        effect,
        basis if count else "no repeat has both arms in every cell",
        control,
        blocks.until_decided,
        blocks.repeats,
    )


def _of_rounds(comparisons: Sequence[Comparison], *, control: bool) -> Comparison:
    spreads = [comparison.effect.spread for comparison in comparisons if comparison.effect and comparison.effect.spread]
    variances, dfs = (
        np.array([getattr(each, name) for each in spreads], dtype=float) for name in ("blocks", "blocks_df")
    )
    together = Spread(
        np.asarray(variances.sum() / len(spreads) ** 2),
        satterthwaite(variances, dfs),
        np.asarray(np.mean([each.rest for each in spreads])),
        spreads[0].rest_df,
    )
    effect = Effect(
        float(np.mean([comparison.effect.value for comparison in comparisons if comparison.effect])), together
    )
    fewest = min(comparisons, key=lambda comparison: comparison.starts)
    return replace(
        fewest,
        ratio=exponential(effect.interval()),
        difference=None,
        effect=effect,
        basis=f"{counted(len(comparisons), 'cell')} of {fewest.basis}",
        control=control,
        moderated=False,
    )


def _spread(blocks: _Blocks, comparisons: Sequence[Comparison], starts: StartScatter) -> tuple[Spread | None, str]:
    """Return the spread of the mean, and what it rests on in addition to the arm's own blocks, in words."""
    cells, count = blocks.logs.shape
    if count < 2:
        return None, f", which cannot show how much {'runs' if blocks.repeats == 1 else 'starts'} differ"
    if cells < 2 or not np.ptp(blocks.logs, axis=1).any():  # a single cell, or repeats that are all the same
        return over_blocks(blocks.logs.mean(axis=0)), ""
    parts = np.array([blocks.left / cells, 2 * starts.variance]) / count
    df = satterthwaite(parts, np.array([(cells - 1) * (count - 1), starts.df]))
    if starts.variance:  # what starts' means scatter by, less the noise of runs: their sum is known no better than that
        df = min(df, starts.df)
    choices = [(Spread(np.asarray(parts.sum()), df, np.array(0.0), math.inf), f", with {starts.source}")]
    of_cells = [cell.effect.spread for cell in comparisons if cell.effect and cell.effect.spread and cell.moderated]
    if len(of_cells) == cells:
        mean, least = np.mean([each.blocks for each in of_cells]), min(float(each.blocks_df) for each in of_cells)
        choices.append(
            (Spread(np.asarray(mean), least, np.array(0.0), math.inf), f", as sure as {cells} cells are on average")
        )
    return min(choices, key=lambda choice: float(half_width(choice[0], CONFIDENCE)))


def _blocks(cells: Sequence[CellRuns]) -> _Blocks:
    baselines, candidates = (
        [_positive(runs) for runs in arm] for arm in zip(*((c.baseline, c.candidate) for c in cells), strict=True)
    )
    both = [block for block in baselines[0] if all(block in runs for runs in (*baselines, *candidates))]
    launches: list[set[Hashable]] = [
        {(run.arm, run.launch) for runs in (*baselines, *candidates) if (run := runs[block]).launch is not None}
        for block in both
    ]
    logs = np.array(
        [
            [math.log((tried[block].value or 0) / (base[block].value or 1)) for block in both]
            for base, tried in zip(baselines, candidates, strict=True)
        ]
    )
    looked = any(runs[block].until_decided for runs in (*baselines, *candidates) for block in both)
    return _Blocks(averaged(logs.reshape(len(cells), len(both)), connected(launches)), len(both), looked)


def _positive(runs: Sequence[RunSample]) -> dict[Hashable, RunSample]:
    return {block: run for block, run in by_block(runs).items() if run.value is not None and run.value > 0}
