"""The schedule of a study that measures until its cells are decided, or its budget is spent.

Measured is in blocks: a repeat of every open cell (or as many repeats as share an engine start). After each block, from
the second on, the verdicts are looked at: by the functions that the pages use, and paid for (`lab.comparison.looks`).
What is decided stops; so does an arm that another one beats everywhere. What is left goes to the cells that have the
best chance of a verdict for their time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from lab.comparison.chances import chances, likely
from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.influence import follows, mean
from lab.comparison.looks import FIRST_LOOK, LAST_LOOK
from lab.comparison.samples import Array, RunSample
from lab.comparison.verdict import MARGIN, Verdict, like_claims, next_level, verdicts
from lab.schedule.schedule import End, Outcome, Step
from lab.study import Arm, Load, Study
from lab.study.plan import Launch, PlannedRun, cell_by_cell, repeats_of_a_launch, with_fresh_starts

#: The metric whose verdicts are waited for, and its direction.
METRIC = "output_tok_per_s"
#: A cell is worth its time while that is its chance of a verdict for the time that a cell's block usually takes.
#: Chosen by simulation (`python -m benchmarks until_decided`): above it calls fewer effects, below it takes more time.
_LEAST_WORTH = 0.0022
#: Where nothing is known of how long something takes, it takes next to no time.
_NO_TIME_S = 1e-9
#: Engine starts after which a cell without a pair of valid runs is given up.
_TRIES = 3


class Cell(NamedTuple):
    """A candidate under one workload and one load, by their names."""

    workload: str
    load: str
    arm: str


@dataclass(frozen=True)
class Look:
    """What is known so far. `needs`: about how many more blocks would decide an open cell; None: it takes more prompts.

    `failing` cells have no pair of valid runs; `dominated` arms are slower everywhere than the arm they are named with.
    """

    words: Mapping[Cell, str]
    needs: Mapping[Cell, int | None]
    chances: Mapping[Cell, Array]  # of an effect and a verdict after 1, 2 ... more blocks, of each open cell
    failing: frozenset[Cell] = frozenset()
    dominated: Mapping[str, str] | None = None

    @property
    def decided(self) -> int:
        return sum(word != "not enough data" for word in self.words.values())

    @property
    def waiting(self) -> list[Cell]:
        """The open cells that are still of interest, the nearest to a verdict first."""
        aside = self.dominated or {}
        waiting = [cell for cell in self.needs if cell not in self.failing and cell.arm not in aside]
        return sorted(waiting, key=lambda cell: (self.needs[cell] is None, self.needs[cell] or 0, cell))


class UntilDecided:
    """Blocks of the open cells and of the baseline beside them, until one of the reasons to end."""

    def __init__(self, study: Study) -> None:
        if study.budget_s is None:
            raise ValueError("a study that measures until decided has a budget")
        self._study, self._budget_s = study, float(study.budget_s)
        self._repeats_per_start = repeats_of_a_launch(study.order, study.repeats_per_launch, study.repeats)
        self._most = min(LAST_LOOK, max(1, study.repeats // self._repeats_per_start))
        self._remembered_choices: dict[int, tuple[Outcome, tuple[list[Cell], str] | End]] = {}
        self._places = {(w.name, load.name): (w, load) for w in study.workloads for load in study.loads}
        candidates = [arm.name for arm in study.arms if arm != study.baseline]
        self._cells = [Cell(*place, arm) for place in self._places for arm in candidates]

    def next(self, outcomes: Sequence[Outcome]) -> Step | End:
        done, index = 0, 0
        cells, standing = self._cells, ""
        for block in count():
            if block >= FIRST_LOOK:
                chosen = self._remembered(outcomes, done, block)
                if isinstance(chosen, End):
                    return chosen
                cells, standing = chosen
            elif (took_s := spent_s(outcomes[:done])) * (block + 1) > self._budget_s * block:
                minutes = math.ceil(FIRST_LOOK * took_s / 60)
                return End(
                    "budget spent",
                    f"The budget does not hold the {FIRST_LOOK} repeats of the first look: {minutes} min.",
                )
            launches = self._launches(block, cells, index)
            for place, launch in enumerate(launches):
                if done + len(launch.runs) > len(outcomes):
                    later = (*launches[place + 1 :], *self._later(block + 1, cells, index + len(launches)))
                    left_s = max(0.0, self._budget_s - spent_s(outcomes[:done]))
                    return Step(launch, later, later_is_certain=False, most_s=left_s, standing=standing)
                done += len(launch.runs)
            index += len(launches)
        raise AssertionError  # a schedule ends or has a step

    def _remembered(self, outcomes: Sequence[Outcome], done: int, block: int) -> tuple[list[Cell], str] | End:
        """`_chosen`, computed once for the same outcomes."""
        last = outcomes[done - 1]
        if (remembered := self._remembered_choices.get(done)) is None or remembered[0] is not last:
            self._remembered_choices[done] = remembered = (last, self._chosen(outcomes[:done], block))
        return remembered[1]

    def _launches(self, block: int, cells: Iterable[Cell], first_index: int) -> list[Launch]:
        """The launches of one block: A B or B A, or all arms on one launch side by side."""
        places: dict[str, set[tuple[str, str]]] = {}
        for cell in cells:
            for arm in (cell.arm, self._study.baseline.name):
                places.setdefault(arm, set()).add((cell.workload, cell.load))
        repeats = range(block * self._repeats_per_start, (block + 1) * self._repeats_per_start)
        arms = [arm for arm in self._study.arms if arm.name in places]
        if self._study.order == "side_by_side":
            runs = cell_by_cell(run for r in repeats for arm in arms for run in self._runs(arm, places[arm.name], r))
            return list(with_fresh_starts(self._study, [Launch(0, tuple(arms), runs)], first_index))
        launches = (
            Launch(0, (arm,), tuple(run for r in repeats for run in self._runs(arm, places[arm.name], r)))
            for arm in _turned(arms, block)
        )
        return list(with_fresh_starts(self._study, launches, first_index))

    def _runs(self, arm: Arm, places: set[tuple[str, str]], repeat: int) -> Iterable[PlannedRun]:
        return (PlannedRun(arm, *about, repeat) for place, about in self._places.items() if place in places)

    def _later(self, block: int, cells: Sequence[Cell], index: int) -> Iterable[Launch]:
        """At most what follows: these cells until the last look."""
        for number in range(block, self._most):
            launches = self._launches(number, cells, index)
            index += len(launches)
            yield from launches

    def _chosen(self, outcomes: Sequence[Outcome], blocks: int) -> tuple[list[Cell], str] | End:
        """The cells of the next block, and what is known so far; or why there is none."""
        look, prices = look_at(self._study, outcomes), _Prices(self._study, outcomes, self._repeats_per_start)
        left_s = self._budget_s - spent_s(outcomes)
        if not look.waiting:
            return End("hopeless" if look.failing else "decided", _sentence(look, ""))
        if blocks >= self._most:
            return End("hopeless", _sentence(look, f"A study until decided has at most {self._most} looks."))
        chosen, too_dear = _worth_their_time(look, prices, self._most - blocks, left_s)
        if not chosen:
            return End("budget spent" if too_dear else "hopeless", _sentence(look, _hopeless(look, prices)))
        return chosen, _sentence(look, "")


def _worth_their_time(look: Look, prices: _Prices, most: int, left_s: float) -> tuple[list[Cell], bool]:
    """The cells of the next block, the best chance of a verdict a second first; whether the time left kept some out.

    A cell's time is that of as many blocks as are best for it, at what they add to the time of those chosen before.
    """
    blocks: dict[Cell, int] = {}
    worth: dict[Cell, float] = {}
    for cell in look.waiting:
        likely = look.chances[cell][:most]
        blocks[cell] = 1 + int((likely / np.arange(1, likely.size + 1)).argmax())
        worth[cell] = float(likely[blocks[cell] - 1])
    chosen: dict[Cell, int] = {}
    price, too_dear = 0.0, False
    while worth:
        added = {cell: max(prices.of(chosen | {cell: blocks[cell]}) - price, _NO_TIME_S) for cell in worth}
        cell = max(worth, key=lambda each: (worth[each] / added[each], each))
        if worth.pop(cell) / added[cell] < _LEAST_WORTH / prices.usual():
            break
        longer = chosen | {cell: blocks[cell]}
        if (not chosen or price + added[cell] <= left_s) and prices.of(dict.fromkeys(longer, 1)) <= left_s:
            chosen, price = longer, price + added[cell]
        else:
            too_dear = True
    return list(chosen), too_dear


def compared(study: Study, outcomes: Iterable[Outcome]) -> dict[Cell, tuple[Comparison, Verdict]]:
    """Compare every candidate with the baseline as the pages do, but without the history of the machine."""
    arms = [arm.name for arm in study.arms if arm != study.baseline]
    return _Runs.of(study, outcomes).judged(study.baseline.name, arms)


def look_at(study: Study, outcomes: Sequence[Outcome]) -> Look:
    """Judge what was measured so far."""
    runs, arms = _Runs.of(study, outcomes), [arm.name for arm in study.arms if arm != study.baseline]
    judged = runs.judged(study.baseline.name, arms)
    candidates = {cell: judgement for cell, judgement in judged.items() if cell.arm not in runs.controls}
    undecided = {cell: pair for cell, pair in candidates.items() if pair[1].word == "not enough data"}
    needs = {
        cell: 1 if comparison.blocks < FIRST_LOOK else _more_blocks(comparison, verdict)
        for cell, (comparison, verdict) in undecided.items()
    }
    alpha = next_level([verdict for _, verdict in judged.values()])
    like = dict(zip(judged, like_claims([comparison for comparison, _ in judged.values()]), strict=True))
    return Look(
        words={cell: verdict.word for cell, (_, verdict) in candidates.items()},
        needs=needs,
        chances={cell: _chances(comparison, alpha, like[cell]) for cell, (comparison, _) in undecided.items()},
        failing=frozenset(
            cell for cell, judgement in candidates.items() if not judgement[0].blocks and runs.tried_enough(cell)
        ),
        dominated=_dominated(runs, [arm for arm in arms if arm not in runs.controls], {cell.arm for cell in needs}),
    )


def _more_blocks(comparison: Comparison, verdict: Verdict) -> int | None:
    return None if verdict.more_repeats is None else verdict.more_repeats // comparison.repeats_a_block


def _chances(comparison: Comparison, alpha: float, like: int) -> Array:
    """The chances of a verdict, as far as it is likely that there is an effect.

    Of a cell that is too young to be judged nothing is known, so its next block is always worth its time.
    """
    if comparison.blocks < FIRST_LOOK:
        return np.ones(LAST_LOOK)
    if comparison.effect is None:
        return np.zeros(LAST_LOOK)
    return likely(comparison.effect) * chances(comparison.effect, comparison.blocks, math.log1p(MARGIN), alpha, like)


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
            arm, workload, load, _ = outcome.run.place
            samples.setdefault(Cell(workload, load, arm), []).append(
                _sample(outcome, closed_loop=loads[load].closed_loop)
            )
        base, named = study.baseline, {"name": "", "baseline": False}
        same = [arm.name for arm in study.arms if arm.model_copy(update=named) == base.model_copy(update=named)]
        return cls(samples, loads, frozenset(same) - {base.name})

    def tried_enough(self, cell: Cell) -> bool:
        """Whether the cell was measured on so many engine starts that its next runs will not be valid either."""
        return len({run.launch for run in self.by_cell[cell]}) >= _TRIES

    def judged(self, baseline: str, arms: Iterable[str]) -> dict[Cell, tuple[Comparison, Verdict]]:
        """Compare these arms with another one, wherever both were measured."""
        wanted = set(arms)
        cells = [cell for cell in self.by_cell if cell.arm in wanted and cell._replace(arm=baseline) in self.by_cell]
        comparisons = compare_cells([self._pair(cell, baseline) for cell in cells], "higher")
        return dict(zip(cells, zip(comparisons, verdicts(comparisons), strict=True), strict=True))

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
        run_id="/".join(map(str, outcome.run.place)),
        arm=outcome.run.arm.name,
        block=outcome.run.repeat,
        value=float(value) if outcome.is_valid and isinstance(value, (int, float)) else None,
        requests=None if how is None else outcome.latencies.get(how.column),
        launch=outcome.launch_index,
        until_decided=True,
    )


def _dominated(runs: _Runs, arms: Sequence[str], open_arms: set[str]) -> dict[str, str]:
    """The arms with open cells that another candidate certainly beats in each of its cells, and by which one."""
    beaten_by: dict[str, str] = {}
    everybody = {cell.arm for cell in runs.by_cell}  # they moderate each other
    for other in arms:
        rivals = [arm for arm in arms if arm in open_arms and arm != other and arm not in beaten_by]
        judged = runs.judged(other, everybody - {other}) if rivals and other not in beaten_by else {}
        for arm in rivals:
            cells = [cell for cell in runs.by_cell if cell.arm == arm]
            if judged and all(cell in judged and judged[cell][1].word == "slower" for cell in cells):
                beaten_by[arm] = other
    return beaten_by


def spent_s(outcomes: Iterable[Outcome]) -> float:
    """The time that runs and engine starts took, as far as it is known."""
    starts: dict[tuple[int, str], float] = {}
    runs_s = 0.0
    for outcome in outcomes:
        runs_s += outcome.took_s or 0.0
        if outcome.engine_start_s is not None:
            starts[outcome.launch_index, outcome.run.arm.name] = outcome.engine_start_s
    return runs_s + sum(starts.values())


class _Prices:
    """What runs and engine starts will take, from what they took: medians."""

    def __init__(self, study: Study, outcomes: Sequence[Outcome], repeats_per_start: int) -> None:
        self._baseline, self.repeats_per_start = study.baseline.name, repeats_per_start
        runs: dict[Cell, list[float]] = {}
        starts: dict[str, list[float]] = {}
        for outcome in outcomes:
            arm, workload, load, _ = outcome.run.place
            runs.setdefault(Cell(workload, load, arm), []).append(outcome.took_s or 0.0)
            starts.setdefault(arm, []).append(outcome.engine_start_s or 0.0)
        self._runs_s = {cell: statistics.median(seconds) for cell, seconds in runs.items()}
        self._starts_s = {arm: statistics.median(seconds) for arm, seconds in starts.items()}

    def usual(self) -> float:
        """The seconds of a cell in a block of all cells."""
        every = {cell: 1 for cell in self._runs_s if cell.arm != self._baseline}
        return max(self.of(every) / len(every), _NO_TIME_S)

    def of(self, blocks: Mapping[Cell, int]) -> float:
        """The seconds of so many blocks of these cells, and of as many of the baseline's beside them."""
        most: dict[Cell, int] = {}
        starts: dict[str, int] = {}
        for cell, number in blocks.items():
            for priced in (cell, cell._replace(arm=self._baseline)):
                most[priced] = max(most.get(priced, 0), number)
                starts[priced.arm] = max(starts.get(priced.arm, 0), number)
        runs_s = sum(number * self.repeats_per_start * self._runs_s[cell] for cell, number in most.items())
        return runs_s + sum(number * self._starts_s[arm] for arm, number in starts.items())


def _turned(arms: Sequence[Arm], number: int) -> Sequence[Arm]:
    return arms if number % 2 == 0 else arms[::-1]


def _sentence(look: Look, why: str) -> str:
    parts = [f"{look.decided} of {len(look.words)} cells decided"]
    parts += [
        f"{arm!r} was dropped: {other!r} is faster in every cell" for arm, other in (look.dominated or {}).items()
    ]
    if look.failing:
        parts.append(f"{len(look.failing)} have no valid runs to compare")
    return "; ".join(parts) + "." + (f" {why}" if why else "")


def _hopeless(look: Look, prices: _Prices) -> str:
    """What it would take to decide the nearest of the open cells."""
    nearest = look.waiting[0]
    need = look.needs[nearest]
    name = f"{nearest.arm!r} at {nearest.workload}, {nearest.load}"
    if need is None:
        return f"More repeats alone would decide none of the others: they take more prompts (the first is {name})."
    minutes = math.ceil(prices.of({nearest: need}) / 60)
    repeats = need * prices.repeats_per_start
    return (
        f"The nearest of the others, {name}, would take about {repeats} more repeat{'s' * (repeats != 1)}, "
        f"{minutes} min."
    )
