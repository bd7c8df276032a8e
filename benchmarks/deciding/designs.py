"""Part deciding: what a design of windows decides in the same seconds, beside neighbours and with starts that differ.

Three arms in six cells, as in the demo, simulated in time: each window has the speed that its world left it, the shift
of its engine's start, and noise of its own. Plans, comparisons and verdicts are the project's. Each table is judged
twice, with effects of 1.05 to 1.63 and without any. No processor time is part of any figure.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import signal

from host.settings import Settings
from lab.comparison.compare import CellRuns, compare_cells
from lab.comparison.samples import Array, RunSample
from lab.comparison.tables import starts_of_means, sweep
from lab.comparison.verdict import verdicts
from lab.study.parsing import study_from_dict
from lab.study.plan import plan

TABLES = 100
#: The study's seconds, of which each start of the three engines takes these.
SECONDS, _STARTING_S = 300.0, 60.0
#: True ratios of two candidates in six cells.
_RATIOS = ((1.63, 1.50, 1.40, 1.30, 1.20, 1.10), (1.45, 1.35, 1.25, 1.20, 1.10, 1.05))
_CELLS, _ARMS = 6, 3
#: The noise of a window: timing, and the luck of what is generated, which averages out over the seconds.
_TIMING, _LUCK, _LUCK_S = 0.02, 0.05, 2.0
_STEP_S = 0.1
_SEED = 20261126


@dataclass(frozen=True)
class Window:
    """`group` and `number` tell which windows are compared with each other: a repeat, and a round of it."""

    arm: int
    cell: int
    start: int
    repeat: int
    number: int


@dataclass(frozen=True)
class Shares:
    called: float  # of the effects
    false_tables: float  # of tables without effects, those with a call
    overall: float  # of the overall verdicts on arms with effects, those that are faster
    false_overall: float  # of tables without effects, those with an overall call
    held: float  # of the 95 % intervals of cells, those that hold the truth
    half_width: float  # of the overall intervals, in the median


Order = Callable[[np.random.Generator], list[Window]]


def _long(rng: np.random.Generator, *, shuffled: bool) -> list[Window]:
    """Return today's plan: each cell once on each of two starts, on all arms in turn, A B C, the next C B A."""
    windows: list[Window] = []
    for launch in plan(_STUDY):
        of_launch = [
            Window(int(run.arm.name[1:]), run.load.max_concurrency - 1, launch.index, run.repeat, 0)
            for run in launch.runs
        ]
        for _, of_cell in itertools.groupby(of_launch, key=lambda window: (window.cell, window.repeat)):
            turns = list(of_cell)
            windows += [turns[index] for index in rng.permutation(len(turns))] if shuffled else turns
    return windows


def _short(rng: np.random.Generator, *, starts: int, rounds: int) -> list[Window]:
    """Return rounds of every arm, their order drawn anew each time: A C B, B A C."""
    return [
        Window(int(arm), int(cell), start, start, number)
        for start in range(starts)
        for number in range(rounds)
        for cell in rng.permutation(_CELLS)
        for arm in rng.permutation(_ARMS)
    ]


_STUDY = study_from_dict(
    {
        "name": "simulated",
        "target": "target",
        "arms": [{"name": f"a{arm}", "baseline": arm == 0, "flags": {"n": arm}} for arm in range(_ARMS)],
        "workloads": [{"dataset": "reference"}],
        "loads": [{"max_concurrency": 1 + cell, "num_prompts": 8} for cell in range(_CELLS)],
        "repeats": 2,
        "order": "side_by_side",
    }
)
DESIGNS: Mapping[str, Order] = {
    "long windows, fixed order": partial(_long, shuffled=False),
    "long windows, shuffled": partial(_long, shuffled=True),
    "rounds on one start": partial(_short, starts=1, rounds=7),
    "rounds on two starts": partial(_short, starts=2, rounds=3),
}


@dataclass(frozen=True)
class World:
    """`slower` draws by how much the logarithm of the speed falls, step by step, of shape (tables, steps)."""

    slower: Callable[[np.random.Generator, int, int], Array]
    starts: float = 0.01  # by how much the starts of an engine differ


def _quiet(_rng: np.random.Generator, tables: int, steps: int) -> Array:
    return np.zeros((tables, steps))


def _wandering(rng: np.random.Generator, tables: int, steps: int, *, over_s: float) -> Array:
    stays = math.exp(-_STEP_S / over_s)
    white = 0.1 * math.sqrt(1 - stays**2) * rng.standard_normal((tables, steps))
    white[:, 0] = 0.1 * rng.standard_normal(tables)
    return np.asarray(signal.lfilter([1.0], [1.0, -stays], white, axis=1))


def _periodic(rng: np.random.Generator, tables: int, steps: int, *, every_s: float) -> Array:
    phase = rng.random((tables, 1)) + np.arange(steps) * _STEP_S / every_s
    return np.asarray(np.where(phase % 1 < 1 / 3, math.log(1.3), 0.0))


def _neighbour(rng: np.random.Generator, tables: int, steps: int, *, on_s: float, off_s: float) -> Array:
    """Return a program that takes a third of the speed, for a time and with gaps that are random."""
    changes = rng.random((tables, steps))
    busy = np.empty((tables, steps), dtype=np.bool_)
    now = rng.random(tables) < on_s / (on_s + off_s)
    for step in range(steps):
        now ^= changes[:, step] < _STEP_S / np.where(now, on_s, off_s)
        busy[:, step] = now
    return np.asarray(np.where(busy, math.log(1.5), 0.0))


def _drifting(_rng: np.random.Generator, tables: int, steps: int) -> Array:
    return np.tile(np.linspace(0, 0.2, steps), (tables, 1))


WORLDS: Mapping[str, World] = {
    "quiet, starts equal": World(_quiet, 0.0),
    "quiet": World(_quiet),
    "quiet, starts of 3 %": World(_quiet, 0.03),
    **{f"wandering, {over_s} s": World(partial(_wandering, over_s=over_s)) for over_s in (3, 10, 30)},
    "periodic, 15 s": World(partial(_periodic, every_s=15)),
    "periodic, 7 s": World(partial(_periodic, every_s=7)),
    "bursts": World(partial(_neighbour, on_s=2, off_s=40)),
    "neighbour 4 s on, 12 s off": World(partial(_neighbour, on_s=4, off_s=12)),
    "neighbour 20 s on, 60 s off": World(partial(_neighbour, on_s=20, off_s=60)),
    "the same, starts of 3 %": World(partial(_neighbour, on_s=20, off_s=60), 0.03),
    "drifting": World(_drifting),
}


def run(_settings: Settings, _repeats: int, tables: int = TABLES) -> None:
    """Simulate and print a table in Markdown."""
    print(
        f"{tables} tables of {_CELLS} cells x {_ARMS - 1} arms, {SECONDS:.0f} s each; starts differ by 1 % if not said"
    )
    print("| world | design | effects called | overall called | +- | false tables | false overall | intervals hold |")
    print("|---|---|---|---|---|---|---|---|")
    for name, world in WORLDS.items():
        for design, order in DESIGNS.items():
            found = simulate(order, world, tables)
            print(
                f"| {name} | {design} | {found.called:.0%} | {found.overall:.0%} | {found.half_width:.1%} "
                f"| {found.false_tables:.0%} | {found.false_overall:.0%} | {found.held:.0%} |",
                flush=True,
            )


def simulate(order: Order, world: World, tables: int) -> Shares:
    """Return what a design decides in a world."""
    rng = np.random.default_rng(_SEED)
    slower = world.slower(rng, tables, round(SECONDS / _STEP_S))
    return Shares(*np.mean([_table(rng, order(rng), world, slower[table]) for table in range(tables)], axis=0).tolist())


def _table(rng: np.random.Generator, windows: Sequence[Window], world: World, slower: Array) -> list[float]:
    logs = _logs(rng, windows, world, slower)
    truth = np.log(_RATIOS)
    words, held, overall, half = _judged(windows, logs, truth)
    null_words, null_held, null_overall, _ = _judged(windows, logs, np.zeros_like(truth))
    called, called_overall = (np.isin(of, ("faster", "slower")) for of in (null_words, null_overall))
    return [
        float(np.mean([word == "faster" for word in words])),
        float(called.any()),
        float(np.mean([word == "faster" for word in overall])),
        float(called_overall.any()),
        (held + null_held) / 2,
        half,
    ]


def _logs(rng: np.random.Generator, windows: Sequence[Window], world: World, slower: Array) -> Array:
    """Return the logarithm of what each window measures, one after the other, without any effect of its arm."""
    starts = 1 + max(window.start for window in windows)
    length_s = (SECONDS - starts * _STARTING_S) / len(windows)
    begins_s = np.arange(len(windows)) * length_s + [_STARTING_S * (1 + window.start) for window in windows]
    sums = np.concatenate(([0.0], np.cumsum(np.exp(-slower))))
    first, last = (np.interp(at / _STEP_S, np.arange(sums.size), sums) for at in (begins_s, begins_s + length_s))
    shift = world.starts * rng.standard_normal((_ARMS, starts))
    noise = np.hypot(_TIMING, _LUCK * math.sqrt(_LUCK_S / length_s)) * rng.standard_normal(len(windows))
    shifts = np.array([shift[window.arm, window.start] for window in windows])
    return np.asarray(np.log((last - first) * _STEP_S / length_s) + shifts + noise)


def _judged(windows: Sequence[Window], logs: Array, truth: Array) -> tuple[list[str], float, list[str], float]:
    """Return the words of cells, how many of their intervals hold the truth, the overall words, and half a width."""
    runs: dict[tuple[int, int], dict[int, list[tuple[Window, float]]]] = {}
    for window, log in zip(windows, logs.tolist(), strict=True):
        effect = truth[window.arm - 1, window.cell] if window.arm else 0.0
        repeats = runs.setdefault((window.arm, window.cell), {})
        repeats.setdefault(window.repeat, []).append((window, math.exp(log + effect)))
    samples = {key: [_sample(of_run) for of_run in repeats.values()] for key, repeats in runs.items()}
    keys = [(arm, cell) for arm in range(1, _ARMS) for cell in range(_CELLS)]
    cells = [CellRuns(samples[0, cell], samples[arm, cell], concurrency=1.0 + cell) for arm, cell in keys]
    comparisons = compare_cells(cells, "higher")
    arms = [slice(first, first + _CELLS) for first in range(0, len(cells), _CELLS)]
    starts = starts_of_means([cells[arm] for arm in arms])
    overall = [sweep(cells[arm], comparisons[arm], "higher", starts) for arm in arms]
    ratios = [comparison.ratio for comparison in comparisons]
    held = [
        bool(ratio and ratio.low and ratio.high and ratio.low <= math.exp(truth[arm - 1, cell]) <= ratio.high)
        for ratio, (arm, cell) in zip(ratios, keys, strict=True)
    ]
    halves = [each.effect.interval() for each in overall if each.effect]
    return (
        [verdict.word for verdict in verdicts(comparisons)],
        float(np.mean(held)),
        [verdict.word for verdict in verdicts(overall)],
        float(np.median([(each.high or 0.0) - each.value for each in halves])),
    )


def _sample(of_run: Sequence[tuple[Window, float]]) -> RunSample:
    window, values = of_run[0][0], np.array([value for _, value in sorted(of_run, key=lambda pair: pair[0].number)])
    rounds = values if len(values) > 1 else None
    name = f"{window.arm}-{window.cell}-{window.repeat}"
    return RunSample(name, f"a{window.arm}", window.repeat, float(values.mean()), launch=window.start, rounds=rounds)
