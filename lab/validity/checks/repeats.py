"""Checks that the repeats of a cell, their rounds, and the engine starts of an arm measured the same."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.metrics.records import RunRecord
from lab.validity.check import Answers, Fired, StudyCheck
from lab.validity.checks.comparability import ids_of
from lab.validity.evidence import StudyRun, number
from lab.validity.words import percent

#: What is compared: a load with a rate has the same throughput on a slow server.
FIGURES = {"output_tok_per_s": ("throughput", "tok/s"), "tpot_p50_ms": ("median TPOT", "ms")}
#: How many times apart the repeats of a cell may lie. Shorter windows than this hardly measure.
APART, LEAST_WINDOW_S = 1.5, 1.0
#: The same of rounds of one number, which send the same prompts in each repeat. There are many, and they are short.
ROUNDS_APART, LEAST_ROUND_S = 3.0, 0.25
#: How far engine starts of an arm may differ in the mean over its cells, of at least so many, and the share of studies
#: in which starts that differ by less are named by chance.
STARTS_APART, LEAST_CELLS, BY_CHANCE = 0.1, 3, 0.01

_Cell = tuple[str, ...]
_Measured = dict[_Cell, list[tuple[RunRecord, float]]]


@dataclass(frozen=True)
class _Apart:
    """The repeats of a cell, or of a round of it, in one figure, in order of time; the largest over the smallest."""

    figure: str
    runs: tuple[RunRecord, ...]
    values: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return max(self.values) / min(self.values)


def _cells(runs: Sequence[StudyRun], figure: str) -> _Measured:
    """Return the positive figures of each cell's runs, in the order of measuring; without very short windows."""
    cells: _Measured = defaultdict(list)
    for study_run in _in_order(runs):
        run, value = study_run.run, number(study_run.metrics, figure)
        if value and (number(study_run.metrics, "duration_s") or 0.0) >= LEAST_WINDOW_S:
            cells[_cell(run)].append((run, value))
    return cells


def _rounds(runs: Sequence[StudyRun], figure: str) -> _Measured:
    """Return the same of each round of each cell, whose number ends the key."""
    rounds: _Measured = defaultdict(list)
    for study_run in _in_order(runs):
        for place, metrics in enumerate(study_run.rounds):
            value = number(metrics, figure)
            if value and (number(metrics, "duration_s") or 0.0) >= LEAST_ROUND_S:
                rounds[*_cell(study_run.run), str(place)].append((study_run.run, value))
    return rounds


def _in_order(runs: Sequence[StudyRun]) -> list[StudyRun]:
    return sorted(runs, key=lambda study_run: study_run.run.started_at)


def _cell(run: RunRecord) -> _Cell:
    return run.study_id, run.arm.name, run.workload.name, run.load.name


def _repeats_differ(runs: Sequence[StudyRun]) -> Answers:
    """Report each arm once, by the cell whose repeats lie furthest apart, beside the repeats of other arms."""
    return _too_wide(_spread(runs, _cells), APART, "The repeats of {!r}", "cells")


def _rounds_differ(runs: Sequence[StudyRun]) -> Answers:
    """Report each arm once, by the round that lies furthest from the same round of another repeat."""
    return _too_wide(_spread(runs, _rounds), ROUNDS_APART, "Rounds of {!r} that sent the same prompts", "rounds")


_Spread = dict[str, dict[_Cell, _Apart]]  # by arm and cell


def _spread(runs: Sequence[StudyRun], measured: Callable[[Sequence[StudyRun], str], _Measured]) -> _Spread:
    """Return how far apart the repeats lie, in the figure in which they lie furthest."""
    spread: _Spread = defaultdict(dict)
    for figure in FIGURES:
        for cell, of_cell in measured(runs, figure).items():
            if len({run.repeat for run, _ in of_cell}) > 1:
                apart = _Apart(figure, *map(tuple, zip(*of_cell, strict=True)))
                before = spread[cell[1]].get(cell)
                spread[cell[1]][cell] = apart if before is None else max(before, apart, key=lambda each: each.ratio)
    return spread


def _too_wide(spread: _Spread, bound: float, of_arm: str, parts: str) -> Iterator[Fired]:
    """Report each arm that has parts, such as cells, whose repeats lie further apart than the bound, by the worst."""
    for arm, cells in spread.items():
        wide = {cell: apart for cell, apart in cells.items() if apart.ratio > bound}
        if wide:
            worst = max(wide, key=lambda cell: wide[cell].ratio)
            yield Fired(
                f"{of_arm.format(arm)} lie up to {wide[worst].ratio:.3g} times apart in {_values(wide[worst], worst)}, "
                f"more than {bound:g} times in {len(wide)} of {len(cells)} {parts}{_of_others(arm, spread)}.",
                run_ids=ids_of([run for apart in wide.values() for run in apart.runs]),
            )


def _values(apart: _Apart, cell: _Cell) -> str:
    name, unit = FIGURES[apart.figure]
    _, _, workload, load, *places = cell
    where = ", ".join((workload, load, *(f"round {int(place) + 1}" for place in places)))
    values = ", ".join(f"{value:.4g}" for value in apart.values)
    return f"{name}: {values} {unit} in the order of measuring ({where})"


def _of_others(arm: str, spread: _Spread) -> str:
    others = [apart.ratio for other, of_other in spread.items() if other != arm for apart in of_other.values()]
    return f"; those of other arms {statistics.median(others):.3g} times (median)" if others else ""


def _starts_differ(runs: Sequence[StudyRun]) -> Answers:
    """Compare each engine start of an arm with the arm's other starts, over the cells that both measured."""
    by_arm: dict[str, dict[int, _Measured]] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for cell, measured in _cells(runs, "output_tok_per_s").items():
        if not measured[0][0].load.closed_loop:
            continue
        for run, value in measured:
            by_arm[f"{run.job_id} {cell[1]}"][_start(run)][cell].append((run, math.log(value)))
    for starts in by_arm.values():
        pairs = list(_start_pairs(starts))
        for first, second, differences in pairs:
            mean = statistics.fmean(differences)
            if abs(mean) > math.log1p(STARTS_APART) and _beyond_chance(differences, len(pairs)):
                both = [run for start in (first, second) for of_cell in starts[start].values() for run, _ in of_cell]
                what = "engine start" if both[0].circumstances.command else "repeat"
                by = f"{percent(math.expm1(abs(mean)))} {'faster' if mean > 0 else 'slower'}"
                sentence = (
                    f"{both[0].arm.name!r} was {by} in {what} {second + 1} than in {what} {first + 1}, in the mean "
                    f"over {len(differences)} cells."
                )
                yield Fired(sentence, run_ids=ids_of(both))


def _start(run: RunRecord) -> int:
    """Return the order of the engine's start in the job; of a server that Drafthouse does not start, of the repeat."""
    return run.launch_index if run.circumstances.command else run.repeat


def _start_pairs(starts: Mapping[int, _Measured]) -> Iterator[tuple[int, int, list[float]]]:
    """Yield the first start with each later one, and by how much the mean logarithm of each cell that both measured is
    greater there.
    """
    first, *later = sorted(starts)
    means = {
        start: {cell: statistics.fmean(log for _, log in of_cell) for cell, of_cell in cells.items()}
        for start, cells in starts.items()
    }
    for second in later:
        differences = [means[second][cell] - mean for cell, mean in means[first].items() if cell in means[second]]
        if len(differences) >= LEAST_CELLS:
            yield first, second, differences


def _beyond_chance(differences: Sequence[float], pairs: int) -> bool:
    from lab.comparison.spread import student  # noqa: PLC0415 - loads SciPy, for the few starts that lie apart

    error = statistics.stdev(differences) / math.sqrt(len(differences))
    return abs(statistics.fmean(differences)) > float(student(len(differences) - 1, 1 - BY_CHANCE / 2 / pairs)) * error


CHECKS = (
    StudyCheck(
        name="repeats_differ",
        traps=(20, 21),
        severity="warning",
        looks_at=(*FIGURES, "duration_s", "arm", "workload", "load", "repeat", "started_at"),
        needs=("arm",),
        threshold=f"the repeats of a cell are more than {APART:g} times apart in throughput or median TPOT; windows "
        f"below {LEAST_WINDOW_S:g} s do not count",
        why="A mean hides that a server was fast in one repeat and slow in the next.",
        advice="Look at other programs (other_programs), clocks and the slow repeat's log. If one arm alone differs, "
        "its server changes with time: measure it from a fresh start.",
        rule=_repeats_differ,
    ),
    StudyCheck(
        name="rounds_differ",
        traps=(20, 21),
        severity="note",
        looks_at=("windows", *FIGURES, "duration_s", "arm", "workload", "load", "repeat", "started_at"),
        needs=("arm",),
        threshold=f"a round is more than {ROUNDS_APART:g} times apart from that of another repeat in throughput or "
        f"median TPOT; rounds below {LEAST_ROUND_S:g} s do not count",
        why="Another program or the server slowed one short window.",
        advice="If other arms differ as much, look at other programs (other_programs). If one arm alone does, look "
        "at its requests in that round.",
        rule=_rounds_differ,
    ),
    StudyCheck(
        name="starts_differ",
        traps=(20,),
        severity="warning",
        looks_at=("output_tok_per_s", "duration_s", "launch_index", "arm", "workload", "load"),
        needs=("arm", "launch_index"),
        threshold=f"an arm's closed-loop throughput differs by more than {percent(STARTS_APART)} between its first "
        f"and another engine start (of a running server: repeat), in the mean over {LEAST_CELLS} cells, "
        f"and by more than the cells' scatter (Student's t, {percent(BY_CHANCE)} over the arm's starts)",
        why="Each start chooses memory, graphs and processors again, so repeats on one start agree with each other, "
        "not with the truth.",
        advice="Measure more engine starts (interleaved repeats), not more repeats on one.",
        rule=_starts_differ,
    ),
)
