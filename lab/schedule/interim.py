"""The interim result of a study until decided: its verdicts, what is inconclusive, and what would decide it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.influence import follows, mean
from lab.comparison.looks import FIRST_LOOK, LAST_LOOK, chances, likely
from lab.comparison.samples import Array, RunSample
from lab.comparison.verdict import Verdict, like_claims, next_level, verdicts
from lab.schedule.schedule import Outcome
from lab.study import Load, Study

#: The metric whose verdicts are waited for, and its direction.
METRIC = "output_tok_per_s"
#: Engine starts after which a cell without a pair of valid runs is given up: its next runs will not be valid either.
_TRIES = 3


class Cell(NamedTuple):
    """A candidate under one workload and one load, by their names."""

    workload: str
    load: str
    arm: str


@dataclass(frozen=True)
class Interim:
    """The result so far. `needs`: about how many more blocks would decide an inconclusive cell; None: more prompts.

    `failing` cells have no pair of valid runs; `dominated` arms are slower everywhere than the arm they are named with.
    `noise` is the standard deviation of a run's logarithm in the median cell; 0 if no cell has one.
    """

    words: Mapping[Cell, str]
    needs: Mapping[Cell, int | None]
    likely: Mapping[Cell, float]  # that there is an effect, of each inconclusive cell
    chances: Mapping[Cell, Array]  # that 1, 2 ... more blocks would show it then
    noise: float
    failing: frozenset[Cell]
    dominated: Mapping[str, str]

    @property
    def decided(self) -> int:
        return sum(word != "inconclusive" for word in self.words.values())

    @property
    def waiting(self) -> list[Cell]:
        """Return the inconclusive cells of interest, the nearest to a verdict first."""
        waiting = [cell for cell in self.needs if cell not in self.failing and cell.arm not in self.dominated]
        return sorted(waiting, key=lambda cell: (self.needs[cell] is None, self.needs[cell] or 0, cell))


def compared(study: Study, outcomes: Iterable[Outcome]) -> dict[Cell, tuple[Comparison, Verdict]]:
    """Compare every candidate with the baseline as the pages do, but without the history of the machine."""
    arms = [arm.name for arm in study.arms if arm != study.baseline]
    return _Runs.of(study, outcomes).judged(study.baseline.name, arms)


def interim(study: Study, outcomes: Sequence[Outcome]) -> Interim:
    """Judge what was measured so far."""
    runs, arms = _Runs.of(study, outcomes), [arm.name for arm in study.arms if arm != study.baseline]
    judged = runs.judged(study.baseline.name, arms)
    candidates = {cell: judgement for cell, judgement in judged.items() if cell.arm not in runs.controls}
    alpha = next_level([verdict for _, verdict in judged.values()])
    like = dict(zip(judged, like_claims([comparison for comparison, _ in judged.values()]), strict=True))
    needs: dict[Cell, int | None] = {}
    likely_effect: dict[Cell, float] = {}
    chances_of: dict[Cell, Array] = {}
    for cell, (comparison, verdict) in candidates.items():
        if verdict.word != "inconclusive":
            continue
        more, effect = verdict.more_repeats, comparison.effect
        if comparison.blocks < FIRST_LOOK:  # too young to be judged, so its next block is always worth its time
            needs[cell], likely_effect[cell], chances_of[cell] = 1, 1.0, np.ones(LAST_LOOK)
            continue
        needs[cell] = None if more is None else more // comparison.repeats_a_block
        likely_effect[cell] = 1.0 if effect is None else likely(effect)
        chances_of[cell] = (
            np.zeros(LAST_LOOK) if effect is None else chances(effect, comparison.blocks, alpha, like[cell])
        )
    # a block's ratio is of two runs, so it has twice the variance of one
    scattered = [(c.effect.spread, c.blocks) for c, _ in judged.values() if c.effect and c.effect.spread]
    noises = [math.sqrt(float(around.blocks) * blocks / 2) for around, blocks in scattered]
    unpaired = [cell for cell, (comparison, _) in candidates.items() if not comparison.blocks]
    return Interim(
        words={cell: verdict.word for cell, (_, verdict) in candidates.items()},
        needs=needs,
        likely=likely_effect,
        chances=chances_of,
        noise=statistics.median(noises) if noises else 0.0,
        failing=frozenset(cell for cell in unpaired if len({run.launch for run in runs.by_cell[cell]}) >= _TRIES),
        dominated=_dominated(runs, [arm for arm in arms if arm not in runs.controls], {cell.arm for cell in needs}),
    )


@dataclass(frozen=True)
class _Runs:
    """What was measured in each cell, the baseline's included. `controls`: arms that are identical to the baseline."""

    by_cell: Mapping[Cell, Sequence[RunSample]]
    loads: Mapping[str, Load]  # by name
    controls: frozenset[str]

    @classmethod
    def of(cls, study: Study, outcomes: Iterable[Outcome]) -> _Runs:
        samples: dict[Cell, list[RunSample]] = {}
        loads = {load.name: load for load in study.loads}
        for outcome in outcomes:
            arm, workload, load, _ = outcome.run.names
            samples.setdefault(Cell(workload, load, arm), []).append(
                _sample(outcome, closed_loop=loads[load].closed_loop)
            )
        base, named = study.baseline, {"name": "", "baseline": False}
        same = [arm.name for arm in study.arms if arm.model_copy(update=named) == base.model_copy(update=named)]
        return cls(samples, loads, frozenset(same) - {base.name})

    def judged(self, baseline: str, arms: Iterable[str]) -> dict[Cell, tuple[Comparison, Verdict]]:
        """Compare these arms with another one, wherever both were measured."""
        wanted = set(arms)
        cells = [cell for cell in self.by_cell if cell.arm in wanted and cell._replace(arm=baseline) in self.by_cell]
        comparisons = compare_cells([self._pair(cell, baseline) for cell in cells], "higher")
        return dict(zip(cells, zip(comparisons, verdicts(comparisons), strict=True), strict=True))

    def is_behind(self, arm: str, other: str) -> bool:
        """Return whether the arm measured less than the other in every one of its cells, as domination requires."""
        for cell in (cell for cell in self.by_cell if cell.arm == arm):
            theirs = {run.block: run.value for run in self.by_cell.get(cell._replace(arm=other), ())}
            pairs = [(run.value, theirs.get(run.block)) for run in self.by_cell[cell]]
            logs = [math.log(mine / yours) for mine, yours in pairs if mine and yours]
            if not logs or math.exp(statistics.fmean(logs)) >= 1:
                return False
        return True

    def _pair(self, cell: Cell, baseline: str) -> CellRuns:
        load = self.loads[cell.load]
        how = follows(METRIC, closed_loop=load.closed_loop)
        return CellRuns(
            self.by_cell[cell._replace(arm=baseline)],
            self.by_cell[cell],
            mean if how is None else how.influence,
            control=cell.arm in self.controls,
            concurrency=load.max_concurrency,
        )


def _sample(outcome: Outcome, *, closed_loop: bool) -> RunSample:
    how, value = follows(METRIC, closed_loop=closed_loop), outcome.metrics.get(METRIC)
    return RunSample(
        run_id="/".join(map(str, outcome.run.names)),
        arm=outcome.run.arm.name,
        block=outcome.run.repeat,
        value=float(value) if outcome.is_valid and isinstance(value, (int, float)) else None,
        requests=None if how is None else outcome.latencies.get(how.column),
        launch=outcome.launch_index,
        until_decided=True,
        rounds=np.array(outcome.rounds, dtype=np.float64) if outcome.rounds else None,  # None becomes NaN
        in_sessions=outcome.run.workload.sessions is not None,
    )


def _dominated(runs: _Runs, arms: Sequence[str], open_arms: set[str]) -> dict[str, str]:
    """Return the inconclusive arms that another candidate certainly beats in each of their cells, and by which one."""
    beaten_by: dict[str, str] = {}
    everybody = {cell.arm for cell in runs.by_cell}  # all moderate each other's variances
    for other in arms:
        rivals = [
            arm
            for arm in arms
            if arm in open_arms and arm != other and arm not in beaten_by and runs.is_behind(arm, other)
        ]
        judged = runs.judged(other, everybody - {other}) if rivals and other not in beaten_by else {}
        for arm in rivals:
            cells = [cell for cell in runs.by_cell if cell.arm == arm]
            if judged and all(cell in judged and judged[cell][1].word == "slower" for cell in cells):
                beaten_by[arm] = other
    return beaten_by
