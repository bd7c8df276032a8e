"""Two arms over the same workload and load: ratio and difference of a metric, with intervals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from lab.comparison import rounds
from lab.comparison.effect import Effect, Interval, difference, log_ratio, log_ratios, variance_of_block
from lab.comparison.influence import Influence, mean
from lab.comparison.moderation import Scatter, moderated, repetitions
from lab.comparison.samples import Array, Pairs, RunSample, connected, pair
from lab.comparison.starts import Lying, StartScatter, start_scatter
from lab.metrics.definition import Better
from lab.metrics.number_format import counted


@dataclass(frozen=True)
class Comparison:
    """`ratio` is candidate / baseline whichever direction is better; None without pairs or with a number <= 0.

    `control` means that both arms are identical: the true ratio is 1, and any deviation is noise. It makes no claim.
    `blocks` counts independent observations: repeats, or engine starts where several repeats share one.
    `effect` is its natural logarithm with its variance; verdicts are based on it. `basis` says in words what the
    interval was computed from. In cells measured in rounds it has two levels (`lab.comparison.rounds`).
    """

    better: Better
    blocks: int
    prompts: int | None  # paired, or sessions; None if the interval does not generalise to other prompts
    ratio: Interval | None
    difference: Interval | None
    effect: Effect | None
    basis: str
    control: bool = False
    until_decided: bool = False  # looked at after every block: verdicts pay for that (`lab.comparison.looks`)
    repeats: int = 0  # in both arms
    moderated: bool = False  # other cells contribute to the estimate of its variance
    starts: int = 0  # of the arm with fewer; 0 unless measured in rounds, where starts are a level of their own

    @property
    def repeats_a_block(self) -> int:
        """Return how many repeats share the engine starts of a block, rounded up."""
        return max(1, math.ceil(self.repeats / self.blocks)) if self.blocks else 1

    @property
    def gain(self) -> Interval | None:
        """Return the ratio, oriented so that above 1 the candidate is better."""
        return self.ratio if self.ratio is None or self.better == "higher" else self.ratio.inverted


@dataclass(frozen=True)
class CellRuns:
    """Both arms' runs in one cell. `influence` is of the metric: `mean`, or `percentile(0.5)` for a median.

    `control`: the two arms are identical. `concurrency` is the load's, with which noise may grow; None if unknown.
    """

    baseline: Sequence[RunSample]
    candidate: Sequence[RunSample]
    influence: Influence = mean
    control: bool = False
    concurrency: float | None = None


def compare_cells(
    cells: Sequence[CellRuns], better: Better, *, history: Sequence[Sequence[float]] = ()
) -> list[Comparison]:
    """Compare both arms in each cell; the cells' variances moderate each other (`lab.comparison.moderation`).

    The true mean of a control's log ratios is known to be 0. So for the other cells its variance is taken about 0, with
    one more degree of freedom, and a single repeat is enough.
    All cells are of one metric on one machine. `history` holds the metric's values in the repeats of each cell measured
    earlier on this hardware. Raises ValueError if an arm has two runs in a block.
    """
    pairs = [pair(cell.baseline, cell.candidate) for cell in cells]
    by_round = [rounds.by_round(pairs_of_cell) for pairs_of_cell in pairs]
    whole = [index for index, ratios in enumerate(by_round) if ratios is None]
    moderated_of = _scatters([cells[index] for index in whole], [pairs[index] for index in whole], history)
    comparisons = {
        index: _comparison(pairs[index], better, cells[index], scatter)
        for index, scatter in zip(whole, moderated_of, strict=True)
    }
    parts = {index: ratios for index, ratios in enumerate(by_round) if ratios is not None}
    if parts:
        starts = _starts(
            [cells[index] for index in parts], [pairs[index] for index in parts], list(parts.values()), history
        )
        scatter_of = _scatters_of_rounds([cells[index] for index in parts], list(parts.values()))
        for (index, ratios), scatter in zip(parts.items(), scatter_of, strict=True):
            comparisons[index] = _in_rounds(pairs[index], ratios, better, cells[index], (scatter, starts))
    return [comparisons[index] for index in range(len(cells))]


def _starts(
    cells: Sequence[CellRuns],
    pairs: Sequence[Pairs],
    by_round: Sequence[Array],
    history: Sequence[Sequence[float]],
) -> StartScatter:
    """Return how much engine starts differ by all cells that were measured in rounds."""
    lying = [
        (cell.candidate[0].arm, rounds.starts_apart(ratios, of_cell.units))
        for cell, of_cell, ratios in zip(cells, pairs, by_round, strict=True)
    ]
    groups: list[list[list[Lying]]] = []
    for group in connected([launches_of(cell) for cell in cells]):
        arms: dict[str, list[Lying]] = {}
        for arm, apart in (lying[index] for index in group):
            arms.setdefault(arm, []).append(apart)
        groups.append(list(arms.values()))
    return start_scatter(groups, history)


def launches_of(cell: CellRuns) -> set[Hashable]:
    """Return the engine starts of both arms; a run of an unknown one stands for itself."""
    return {(run.arm, run.run_id if run.launch is None else run.launch) for run in (*cell.baseline, *cell.candidate)}


def _scatters_of_rounds(cells: Sequence[CellRuns], by_round: Sequence[Array]) -> list[Scatter | None]:
    own = [rounds.of_one(ratios) for ratios in by_round]
    variances, dfs = [variance for variance, _ in own], [df for _, df in own]
    return moderated(variances, dfs, _sharing(cells), controls=[cell.control for cell in cells], loads=_loads(cells))


def _sharing(cells: Sequence[CellRuns]) -> list[int]:
    """Return how many cells share each cell's baseline runs."""
    shared = Counter(tuple(run.run_id for run in cell.baseline) for cell in cells)
    return [shared[tuple(run.run_id for run in cell.baseline)] for cell in cells]


def _loads(cells: Sequence[CellRuns]) -> list[float]:
    """Return the concurrency of each cell; empty if one is unknown."""
    loads = [cell.concurrency for cell in cells if cell.concurrency]
    return loads if len(loads) == len(cells) else []


def _scatters(
    cells: Sequence[CellRuns], pairs: Sequence[Pairs], history: Sequence[Sequence[float]]
) -> list[Scatter | None]:
    """Return the moderated scatter of each cell; a control's own is about its mean, like its interval.

    A cell's own scatter is the variance of its log ratios with its degrees of freedom, two zeros if unknown.
    """
    if not cells:
        return []
    sharing, controls, loads = _sharing(cells), [cell.control for cell in cells], _loads(cells)
    logs = [log_ratios(pairs_of_cell) for pairs_of_cell in pairs]
    own = [
        (0.0, 0.0) if ratios is None or ratios.size < 2 else (variance_of_block(of, ratios), ratios.size - 1.0)
        for of, ratios in zip(pairs, logs, strict=True)
    ]
    again = repetitions(
        [{(run.arm, run.launch) for run in cell.candidate if run.launch is not None} for cell in cells],
        [_deviations(ratios, control=cell.control) for ratios, cell in zip(logs, cells, strict=True)],
    )

    looked_at = any(run.until_decided for cell in cells for run in cell.candidate)

    def moderate(spreads: Sequence[tuple[float, float]]) -> list[Scatter | None]:
        variances, dfs = [spread[0] for spread in spreads], [spread[1] for spread in spreads]
        return moderated(
            variances, dfs, sharing, history, controls=controls, repeated=again, loads=loads, looked_at=looked_at
        )

    if not any(controls):
        return moderate(own)
    about_zero = [
        (float((ratios**2).mean()), float(ratios.size)) if control and ratios is not None else alone
        for control, ratios, alone in zip(controls, logs, own, strict=True)
    ]
    both = zip(controls, moderate(own), moderate(about_zero), strict=True)
    return [itself if control else other for control, itself, other in both]


def _deviations(ratios: Array | None, *, control: bool) -> Array:
    if ratios is None:
        return np.empty(0)
    return ratios if control else ratios - ratios.mean()


def _comparison(pairs: Pairs, better: Better, cell: CellRuns, scatter: Scatter | None) -> Comparison:
    influence, looked = cell.influence, any(run.until_decided for run in (*cell.baseline, *cell.candidate))
    effect = log_ratio(pairs, influence, scatter)
    ratio = None if effect is None else exponential(effect.interval())
    changed = _difference(difference(pairs, influence, scatter), pairs, ratio)
    basis = _basis(pairs, scatter) + ("; looked at after every repeat" if looked and pairs.blocks else "")
    repeats = sum(map(len, pairs.blocks))
    return Comparison(
        better,
        len(pairs.blocks),
        pairs.prompts,
        ratio,
        changed,
        effect,
        basis,
        cell.control,
        looked,
        repeats,
        moderated=scatter is not None,
    )


def _in_rounds(
    pairs: Pairs, by_round: Array, better: Better, cell: CellRuns, levels: tuple[Scatter | None, StartScatter]
) -> Comparison:
    """Compare a cell that was measured in rounds; the `levels` are those of rounds and of engine starts."""
    scatter, starts = levels
    effect, changed = rounds.effects(pairs, by_round, scatter, starts)
    repeats, count = by_round.shape
    paired = {block for blocks in pairs.blocks for block in blocks}
    starts_of_arms = [
        {run.run_id if run.launch is None else run.launch for run in runs if run.block in paired}
        for runs in (cell.baseline, cell.candidate)
    ]
    fewest = min(map(len, starts_of_arms))
    like = "" if scatter is None else f"{scatter.source}, and "
    return Comparison(
        better,
        len(pairs.blocks),
        None,
        exponential(effect.interval()),
        changed.interval(),
        effect,
        f"{counted(repeats, 'repeat')} of {count} rounds on {counted(fewest, 'engine start')}, with "
        f"{like}{starts.source}",
        cell.control,
        any(run.until_decided for run in (*cell.baseline, *cell.candidate)),
        repeats,
        moderated=scatter is not None,
        starts=fewest,
    )


def _difference(effect: Effect | None, pairs: Pairs, ratio: Interval | None) -> Interval | None:
    """Return the difference; for a single block its bounds follow from the ratio's bounds and the measured baseline."""
    if effect is None or effect.spread is not None or ratio is None or ratio.low is None or ratio.high is None:
        return None if effect is None else effect.interval()
    base = float(pairs.baseline.mean())
    return Interval(effect.value, base * (ratio.low - 1), base * (ratio.high - 1))


def exponential(interval: Interval) -> Interval:
    """Turn a natural logarithm with its interval back into a ratio; a bound too great for a float is cut."""
    low, high = (None if bound is None else math.exp(min(bound, 700.0)) for bound in (interval.low, interval.high))
    return Interval(math.exp(interval.value), low, high)


def _basis(pairs: Pairs, scatter: Scatter | None) -> str:
    if not pairs.blocks:
        return "no repeat has both arms"
    repeats = sum(map(len, pairs.blocks))
    own = counted(repeats, "repeat")
    if repeats > len(pairs.blocks):
        own += f" on {counted(len(pairs.blocks), 'engine start')}"
    if scatter is None and len(pairs.blocks) == 1:
        return f"{own}, which cannot show how much {'runs' if repeats == 1 else 'starts'} differ"
    if pairs.prompts:
        own += f" and {pairs.prompts} {'prompts' if pairs.sessions is None else 'sessions'}"
    return own if scatter is None else f"{own}, with {scatter.source}"
