"""Checks that the repeats of a cell, and the engine starts of an arm, measured the same."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.metrics.records import RunRecord
from lab.validity.check import Fired, Missing, StudyCheck
from lab.validity.checks.comparability import ids_of
from lab.validity.evidence import StudyRun, number
from lab.validity.words import percent

#: What is compared: a load with a rate has the same throughput on a slow server.
FIGURES = {"output_tok_per_s": ("throughput", "tok/s"), "tpot_p50_ms": ("median TPOT", "ms")}
#: How many times apart the repeats of a cell may lie. Shorter windows than this hardly measure.
APART, LEAST_WINDOW_S = 1.5, 1.0
#: How far engine starts of an arm may differ in the mean over its cells, of at least so many, and the share of studies
#: in which starts that differ by less are named by chance.
STARTS_APART, LEAST_CELLS, BY_CHANCE = 0.1, 3, 0.01

Answers = Sequence[Fired | Missing]
_Cell = tuple[str, ...]


@dataclass(frozen=True)
class _Apart:
    """The repeats of a cell in one figure, in order of time; the ratio of the largest to the smallest."""

    figure: str
    runs: tuple[RunRecord, ...]
    values: tuple[float, ...]

    @property
    def ratio(self) -> float:
        return max(self.values) / min(self.values)


def _cells(runs: Sequence[StudyRun], figure: str) -> dict[_Cell, list[tuple[RunRecord, float]]]:
    """Return the positive figures of each cell's runs, in the order of measuring; without very short windows."""
    cells: dict[_Cell, list[tuple[RunRecord, float]]] = defaultdict(list)
    for study_run in sorted(runs, key=lambda study_run: study_run.run.started_at):
        run, value = study_run.run, number(study_run.metrics, figure)
        if value and run.trial is None and (number(study_run.metrics, "duration_s") or 0.0) >= LEAST_WINDOW_S:
            cells[run.study_id, run.arm.name, run.workload.name, run.load.name].append((run, value))
    return cells


def _repeats_differ(runs: Sequence[StudyRun]) -> Answers:
    """Report each arm once, by the cell whose repeats lie furthest apart, beside the repeats of other arms."""
    spread: dict[str, dict[_Cell, _Apart]] = defaultdict(dict)
    for figure in FIGURES:
        for cell, measured in _cells(runs, figure).items():
            if len({run.repeat for run, _ in measured}) > 1:
                apart = _Apart(figure, *map(tuple, zip(*measured, strict=True)))
                before = spread[cell[1]].get(cell)
                spread[cell[1]][cell] = apart if before is None else max(before, apart, key=lambda each: each.ratio)
    return [fired for arm in spread if (fired := _of_arm(arm, spread)) is not None]


def _of_arm(arm: str, spread: Mapping[str, Mapping[_Cell, _Apart]]) -> Fired | None:
    cells = spread[arm]
    wide = [apart for apart in cells.values() if apart.ratio > APART]
    if not wide:
        return None
    worst = max(wide, key=lambda apart: apart.ratio)
    (name, unit), run = FIGURES[worst.figure], worst.runs[0]
    others = [apart.ratio for other, of_other in spread.items() if other != arm for apart in of_other.values()]
    beside = f"; those of other arms {statistics.median(others):.3g} times (median)" if others else ""
    return Fired(
        f"The repeats of {arm!r} lie up to {worst.ratio:.3g} times apart in {name}: "
        f"{', '.join(f'{value:.4g}' for value in worst.values)} {unit} in the order of measuring ({run.workload.name}, "
        f"{run.load.name}), more than {APART:g} times in {len(wide)} of {len(cells)} cells{beside}.",
        run_ids=ids_of([run for apart in wide for run in apart.runs]),
    )


def _starts_differ(runs: Sequence[StudyRun]) -> Answers:
    """Compare each engine start of an arm with the arm's other starts, over the cells that both measured."""
    found: list[Fired] = []
    by_arm: dict[str, dict[int, dict[_Cell, tuple[RunRecord, float]]]] = defaultdict(lambda: defaultdict(dict))
    for cell, measured in _cells(runs, "output_tok_per_s").items():
        if not measured[0][0].load.closed_loop:
            continue
        for run, value in measured:
            by_arm[f"{run.job_id} {cell[1]}"][_start(run)][cell] = (run, value)
    for starts in by_arm.values():
        pairs = list(_start_pairs(starts))
        for first, second, differences in pairs:
            mean = statistics.fmean(differences)
            if abs(mean) > math.log1p(STARTS_APART) and _beyond_chance(differences, len(pairs)):
                both = [run for start in (first, second) for run, _ in starts[start].values()]
                what = "engine start" if both[0].circumstances.command else "repeat"
                by = f"{percent(math.expm1(abs(mean)))} {'faster' if mean > 0 else 'slower'}"
                sentence = (
                    f"{both[0].arm.name!r} was {by} in {what} {second + 1} than in {what} {first + 1}, in the mean "
                    f"over {len(differences)} cells."
                )
                found.append(Fired(sentence, run_ids=ids_of(both)))
    return found


def _start(run: RunRecord) -> int:
    """Return the order of the engine's start in the job; of a server that Drafthouse does not start, of the repeat."""
    return run.launch_index if run.circumstances.command else run.repeat


def _start_pairs(
    starts: Mapping[int, Mapping[_Cell, tuple[RunRecord, float]]],
) -> Iterator[tuple[int, int, list[float]]]:
    """Yield the first start with each later one, and the log ratios of the cells that both measured."""
    first, *later = sorted(starts)
    for second in later:
        shared = [cell for cell in starts[first] if cell in starts[second]]
        if len(shared) >= LEAST_CELLS:
            yield first, second, [math.log(starts[second][cell][1] / starts[first][cell][1]) for cell in shared]


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
        threshold=f"the repeats of a cell lie more than {APART:g} times apart in throughput or in median TPOT; windows "
        f"below {LEAST_WINDOW_S:g} s do not count. Repeats "
        "that scatter by 10 % (the reference pair on two quiet cores) do so in 0.4 % of cells with two repeats and in "
        "1 % with three",
        why="A ratio of means hides that a server was fast in one repeat and slow in the next. The interval is wide "
        "then, but does not say why.",
        advice="Look at what other programs took (other_programs), at clocks and at the log of the slow repeat. If the "
        "repeats of one arm alone differ, its server changes with time: measure it from a fresh start.",
        rule=_repeats_differ,
    ),
    StudyCheck(
        name="starts_differ",
        traps=(20,),
        severity="warning",
        looks_at=("output_tok_per_s", "duration_s", "launch_index", "arm", "workload", "load"),
        needs=("arm", "launch_index"),
        threshold=f"an arm's throughput in closed loops differs by more than {percent(STARTS_APART)} between its first "
        "and another engine start (of a server that runs already: repeat), in the mean over "
        f"{LEAST_CELLS} cells or more, and by more than the cells' scatter (Student's t, {percent(BY_CHANCE)} over the "
        "arm's starts)",
        why="A start chooses memory, graphs and processors anew, and all its runs share the choice. Repeats on one "
        "start then agree with each other and not with the truth.",
        advice="Measure more engine starts (repeats with the order interleaved), not more repeats on one.",
        rule=_starts_differ,
    ),
)
