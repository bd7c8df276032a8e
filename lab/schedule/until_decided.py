"""The schedule of a study that measures until its cells are decided, or its budget is spent.

It measures in blocks: a repeat of every inconclusive cell (or as many repeats as share an engine start). After each
block, from the second on, the verdicts are looked at: by the functions that the pages use, and paid for
(`lab.comparison.looks`). What is decided stops; so does an arm that another one beats everywhere. What is left goes to
the cells that have the best chance of a verdict for their time.

Where several slots share the study, the next block for a free slot is chosen by what is known at that moment. A cell is
in it only if the blocks under way may not be enough for its verdict, and no more blocks are under way than are done.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count

import numpy as np

from lab.comparison.looks import FIRST_LOOK, LAST_LOOK
from lab.schedule.interim import Cell, Interim, interim
from lab.schedule.schedule import Content, End, Outcome, Share, Step
from lab.study import Arm, Study
from lab.study.plan import Launch, PlannedRun, cell_by_cell, repeats_of_a_launch, with_fresh_starts

#: A cell is worth its time while that is its chance of showing an effect in the time that a cell's block usually takes,
#: for each block so far. Chosen by simulation (`python -m benchmarks until_decided`): above it calls fewer effects,
#: below it takes more time. It rises with the blocks, and with the noise of runs above this, because else noisy studies
#: take longer where quiet ones call as many; of fewer cells than these, whose noise is less certain, it is lower.
_LEAST_WORTH, _QUIET, _MANY_CELLS = 0.0018, 0.02, 12
#: A cell without an effect is given up after about this many more blocks.
_GIVEN_UP_AFTER = 2
#: A step whose duration is unknown counts as almost no time.
_NO_TIME_S = 1e-9


class UntilDecided:
    """Measures blocks of the inconclusive cells and their baseline, until there is a reason to end."""

    def __init__(self, study: Study) -> None:
        self._blocks = _Blocks(study)
        self._remembered_choices: dict[int, tuple[Outcome, tuple[list[Cell], str] | End]] = {}

    def next(self, outcomes: Sequence[Outcome]) -> Step | End:
        done, index = 0, 0
        cells, standing = self._blocks.cells, ""
        budget_s = self._blocks.budget_s
        for block in count():
            if block >= FIRST_LOOK:
                chosen = self._remembered(outcomes, done, block)
                if isinstance(chosen, End):
                    return chosen
                cells, standing = chosen
            elif (took_s := spent_s(outcomes[:done])) * (block + 1) > budget_s * block:
                minutes = math.ceil(FIRST_LOOK * took_s / 60)
                return End(
                    "budget spent",
                    f"The budget does not hold the {FIRST_LOOK} repeats of the first look: {minutes} min.",
                )
            launches = self._blocks.launches(block, cells, index)
            for number, launch in enumerate(launches):
                if done + len(launch.runs) > len(outcomes):
                    later = (*launches[number + 1 :], *self._blocks.later(block + 1, cells, index + len(launches)))
                    left_s = max(0.0, budget_s - spent_s(outcomes[:done]))
                    return Step(launch, later, later_is_certain=False, most_s=left_s, standing=standing)
                done += len(launch.runs)
            index += len(launches)
        raise AssertionError  # a schedule ends or has a step

    def _remembered(self, outcomes: Sequence[Outcome], done: int, block: int) -> tuple[list[Cell], str] | End:
        """Return the choice for these outcomes, computed once."""
        last = outcomes[done - 1]
        if (remembered := self._remembered_choices.get(done)) is None or remembered[0] is not last:
            self._remembered_choices[done] = remembered = (last, self._blocks.chosen(outcomes[:done], block))
        return remembered[1]


class SharedUntilDecided:
    """The same for several slots: a block holds what is worth measuring when a slot becomes free."""

    def __init__(self, study: Study) -> None:
        self._blocks = _Blocks(study)
        self._last_next: tuple[object, Share | End | None] | None = None

    def launches(self, contents: Sequence[Content]) -> list[tuple[Launch, ...]]:
        every: list[tuple[Launch, ...]] = []
        for block, content in enumerate(contents):
            every.append(tuple(self._blocks.launches(block, _cells_in(content), sum(map(len, every)))))
        return every

    def later(self, contents: Sequence[Content]) -> tuple[Launch, ...]:
        cells = _cells_in(contents[-1]) if contents else self._blocks.cells
        return tuple(self._blocks.later(len(contents), cells, sum(map(len, self.launches(contents)))))

    def next(
        self, contents: Sequence[Content], done: Collection[int], outcomes_of: Callable[[int], Sequence[Outcome]]
    ) -> Share | End | None:
        key = (tuple(contents), frozenset(done))
        if self._last_next is None or self._last_next[0] != key:  # a slot that waits calls again and again
            self._last_next = (key, self._next(contents, done, outcomes_of))
        return self._last_next[1]

    def _next(
        self, contents: Sequence[Content], done: Collection[int], outcomes_of: Callable[[int], Sequence[Outcome]]
    ) -> Share | End | None:
        if len(contents) < FIRST_LOOK:
            return Share(_content_of(self._blocks.cells), left_s=self._blocks.budget_s)
        if len(done) < FIRST_LOOK or len(contents) >= 2 * len(done):  # else many slots would measure what few decide
            return None
        outcomes = [outcome for block in sorted(done) for outcome in outcomes_of(block)]
        under_way = [_cells_in(content) for block, content in enumerate(contents) if block not in done]
        following = self._blocks.chosen(outcomes, len(contents), under_way)
        if isinstance(following, End):
            return None if under_way else following
        cells, standing = following
        return Share(_content_of(cells), standing, max(0.0, self._blocks.budget_s - spent_s(outcomes)))


class _Blocks:
    """The blocks that a study until decided may have, and what a block is worth."""

    def __init__(self, study: Study) -> None:
        if study.budget_s is None:
            raise ValueError("a study that measures until decided needs a budget")
        self._study, self.budget_s = study, float(study.budget_s)
        self._repeats_per_start = repeats_of_a_launch(study.order, study.repeats_per_launch, study.repeats)
        self._most = min(LAST_LOOK, max(1, study.repeats // self._repeats_per_start))
        self._by_names = {(w.name, load.name): (w, load) for w in study.workloads for load in study.loads}
        candidates = [arm.name for arm in study.arms if arm != study.baseline]
        self.cells = [Cell(*names, arm) for names in self._by_names for arm in candidates]
        self._known_launches: dict[tuple[int, tuple[Cell, ...], int], list[Launch]] = {}

    def launches(self, block: int, cells: Iterable[Cell], first_index: int) -> list[Launch]:
        """Return the launches of one block: A B or B A, or all arms on one launch side by side.

        Cached, because each step of a schedule lists all that may follow it.
        """
        key = (block, tuple(cells), first_index)
        if key not in self._known_launches:
            self._known_launches[key] = self._launches(*key)
        return self._known_launches[key]

    def _launches(self, block: int, cells: Iterable[Cell], first_index: int) -> list[Launch]:
        wanted: dict[str, set[tuple[str, str]]] = {}
        for cell in cells:
            for arm in (cell.arm, self._study.baseline.name):
                wanted.setdefault(arm, set()).add((cell.workload, cell.load))
        repeats = range(block * self._repeats_per_start, (block + 1) * self._repeats_per_start)
        arms = [arm for arm in self._study.arms if arm.name in wanted]
        if self._study.order == "side_by_side":
            runs = [run for r in repeats for arm in arms for run in self._runs(arm, wanted[arm.name], r)]
            launch = Launch(0, tuple(arms), cell_by_cell(self._study.seed, runs))
            return list(with_fresh_starts(self._study, [launch], first_index))
        launches = (
            Launch(0, (arm,), tuple(run for r in repeats for run in self._runs(arm, wanted[arm.name], r)))
            for arm in (arms if block % 2 == 0 else arms[::-1])
        )
        return list(with_fresh_starts(self._study, launches, first_index))

    def _runs(self, arm: Arm, wanted: set[tuple[str, str]], repeat: int) -> Iterable[PlannedRun]:
        return (PlannedRun(arm, *about, repeat) for names, about in self._by_names.items() if names in wanted)

    def later(self, block: int, cells: Sequence[Cell], index: int) -> Iterable[Launch]:
        """Return the most that may follow: these cells until the last result."""
        for number in range(block, self._most):
            launches = self.launches(number, cells, index)
            index += len(launches)
            yield from launches

    def chosen(
        self, outcomes: Sequence[Outcome], blocks: int, under_way: Sequence[Sequence[Cell]] = ()
    ) -> tuple[list[Cell], str] | End:
        """Return the cells of the next block, and what is known so far; or why there is none.

        `blocks` is the number of those handed out, of which those with the cells `under_way` have no outcomes yet.
        """
        result, prices = interim(self._study, outcomes), _Prices(self._study, outcomes, self._repeats_per_start)
        left_s = self.budget_s - spent_s(outcomes) - sum(prices.of(dict.fromkeys(cells, 1)) for cells in under_way)
        if not result.waiting:
            return End("hopeless" if result.failing else "decided", _sentence(result, ""))
        if blocks >= self._most:
            return End("hopeless", _sentence(result, f"A study until decided has at most {self._most} looks."))
        awaited = Counter(cell for cells in under_way for cell in cells)
        rare = math.sqrt(min(1.0, len(self.cells) / _MANY_CELLS))
        least = _LEAST_WORTH * blocks * max(1.0, result.noise / _QUIET) * rare / prices.usual()
        chosen, too_dear = _worth_their_time(result, prices, self._most - blocks, left_s, awaited, least=least)
        if not chosen:
            return End("budget spent" if too_dear else "hopeless", _sentence(result, ""))
        return chosen, _sentence(result, "")


def _content_of(cells: Iterable[Cell]) -> str:
    return json.dumps([list(cell) for cell in cells])


def _cells_in(content: Content) -> list[Cell]:
    return [Cell(*cell) for cell in json.loads(content or "[]")]


def _worth_their_time(
    result: Interim, prices: _Prices, most: int, left_s: float, awaited: Mapping[Cell, int], *, least: float
) -> tuple[list[Cell], bool]:
    """The cells of the next block, those with the best chance of showing an effect per second first, as long as that is
    `least` or more; and whether the time left excluded some.

    A cell's time is that of its expected blocks (the best number for it if it has an effect, a few if it has none,
    which then soon shows), as far as they add to the time of the cells chosen before. A cell that has as many `awaited`
    blocks under way is left out.
    """
    blocks: dict[Cell, float] = {}
    worth: dict[Cell, float] = {}
    for cell in result.waiting:
        under_way, likely = awaited.get(cell, 0), result.likely[cell]
        chances = likely * result.chances[cell][: most + under_way]
        counts = np.arange(1, chances.size + 1)
        expected = likely * counts + (1 - likely) * np.minimum(counts, _GIVEN_UP_AFTER)
        best = int((chances / expected).argmax())
        if expected[best] > under_way:
            blocks[cell] = float(expected[best]) - under_way
            worth[cell] = float(chances[best])
    chosen: dict[Cell, float] = {}
    price, too_dear = 0.0, False
    while worth:
        added = {cell: max(prices.of(chosen | {cell: blocks[cell]}) - price, _NO_TIME_S) for cell in worth}
        cell = max(worth, key=lambda each: (worth[each] / added[each], each))
        if worth.pop(cell) / added[cell] < least:
            break
        longer = chosen | {cell: blocks[cell]}
        if (not chosen or price + added[cell] <= left_s) and prices.of(dict.fromkeys(longer, 1)) <= left_s:
            chosen, price = longer, price + added[cell]
        else:
            too_dear = True
    return list(chosen), too_dear


def spent_s(outcomes: Iterable[Outcome]) -> float:
    """Return the time that runs and engine starts took, as far as it is known."""
    starts: dict[tuple[int, str], float] = {}
    runs_s = 0.0
    for outcome in outcomes:
        runs_s += outcome.took_s or 0.0
        if outcome.engine_start_s is not None:
            starts[outcome.launch_index, outcome.run.arm.name] = outcome.engine_start_s
    return runs_s + sum(starts.values())


class _Prices:
    """Forecast times of runs and engine starts: medians of the past ones."""

    def __init__(self, study: Study, outcomes: Sequence[Outcome], repeats_per_start: int) -> None:
        self._baseline, self.repeats_per_start = study.baseline.name, repeats_per_start
        runs: dict[Cell, list[float]] = {}
        starts: dict[str, list[float]] = {}
        for outcome in outcomes:
            arm, workload, load, _ = outcome.run.names
            runs.setdefault(Cell(workload, load, arm), []).append(outcome.took_s or 0.0)
            starts.setdefault(arm, []).append(outcome.engine_start_s or 0.0)
        self._runs_s = {cell: statistics.median(seconds) for cell, seconds in runs.items()}
        self._starts_s = {arm: statistics.median(seconds) for arm, seconds in starts.items()}

    def usual(self) -> float:
        """Return the seconds of a cell in a block of all cells."""
        every = {cell: 1 for cell in self._runs_s if cell.arm != self._baseline}
        return max(self.of(every) / len(every), _NO_TIME_S)

    def of(self, blocks: Mapping[Cell, float]) -> float:
        """Return the seconds of this number of blocks of these cells, and of as many blocks of the baseline."""
        most: dict[Cell, float] = {}
        starts: dict[str, float] = {}
        for cell, number in blocks.items():
            for priced in (cell, cell._replace(arm=self._baseline)):
                most[priced] = max(most.get(priced, 0), number)
                starts[priced.arm] = max(starts.get(priced.arm, 0), number)
        runs_s = sum(number * self.repeats_per_start * self._runs_s[cell] for cell, number in most.items())
        return runs_s + sum(number * self._starts_s[arm] for arm, number in starts.items())


def _sentence(result: Interim, why: str) -> str:
    parts = [f"{result.decided} of {len(result.words)} comparisons decided"]
    parts += [f"{arm!r} was dropped: {other!r} is faster in every cell" for arm, other in result.dominated.items()]
    if result.failing:
        parts.append(f"{len(result.failing)} have no valid runs to compare")
    return "; ".join(parts) + "." + (f" {why}" if why else "")
