"""Part tuner: how often the tuner chooses well in simulated worlds, and with how many runs, compared with full grids.

A choice is good if it is within 2 % of the truly best setting at every one of five loads. Each world has three drafts
with up to five tokens. No processor time is part of any figure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from host.settings import Settings
from lab.comparison.verdict import MARGIN
from lab.tuning.race import Limits, next_round
from lab.tuning.result import choice
from lab.tuning.setting import Setting, TunedRun
from lab.tuning.standing import standings
from tests.lab.tuning.worlds import SPACE, World

WORLDS = 500
#: Repeats of the full grid, as many as a verdict needs; the tuner may use half of its runs.
_GRID_REPEATS = 3
GRID_RUNS = len(SPACE.settings) * len(SPACE.loads) * _GRID_REPEATS
LIMITS = Limits(blocks=8, runs=GRID_RUNS // 2)

#: Measures a world: its runs, and the setting it chooses for each load.
Method = Callable[[World], tuple[Sequence[TunedRun], Mapping[int, Setting]]]


def tuned(world: World) -> tuple[Sequence[TunedRun], Mapping[int, Setting]]:
    runs: list[TunedRun] = []
    while (following := next_round(SPACE, runs, LIMITS)) is not None:
        runs += world.measure(following)
    return runs, choice(SPACE, standings(SPACE, runs)).best


def grid(repeats: int) -> Method:
    """Measure everything and choose the greatest mean, as sweeps do."""

    def measured(world: World) -> tuple[Sequence[TunedRun], Mapping[int, Setting]]:
        runs = world.grid(repeats)
        logs: dict[tuple[Setting, int], list[float]] = {}
        for run in runs:
            logs.setdefault((run.setting, run.load), []).append(math.log(run.speed or math.nan))
        best = {load: max(SPACE.settings, key=lambda setting: math.fsum(logs[setting, load])) for load in SPACE.loads}
        return runs, best

    return measured


METHODS: Mapping[str, Method] = {
    "tuner": tuned,
    f"full grid, {_GRID_REPEATS} repeats": grid(_GRID_REPEATS),
    "full grid, one run each": grid(1),
}


@dataclass(frozen=True)
class MethodResult:
    """Results over many worlds: shares of good choices, at every load and load by load, and their cost."""

    good_everywhere: float
    good_loads: float
    worst: float  # the largest loss
    runs: float
    most_runs: int
    starts: float


def simulate(method: Method, worlds: int) -> MethodResult:
    losses, runs, starts = [], [], []
    for seed in range(worlds):
        world = World(seed)
        measured, chosen = method(world)
        losses.append([world.loss(chosen[load], load) for load in SPACE.loads])
        runs.append(len(measured))
        starts.append(len({(run.setting, run.block) for run in measured}))
    good = np.array(losses) <= MARGIN
    return MethodResult(
        good_everywhere=float(good.all(axis=1).mean()),
        good_loads=float(good.mean()),
        worst=float(np.max(losses)),
        runs=float(np.mean(runs)),
        most_runs=max(runs),
        starts=float(np.mean(starts)),
    )


def run(_settings: Settings, _repeats: int, worlds: int = WORLDS) -> None:
    """Print the table."""
    print(f"\nTuner in {worlds} simulated worlds: 3 drafts, k 1 to 5, loads {', '.join(map(str, SPACE.loads))}")
    print(f"{'':26}{'within 2 % at':>15}{'of all':>9}{'worst':>9}{'runs':>16}{'of the grid':>13}{'engine':>9}")
    print(f"{'':26}{'every load':>15}{'loads':>9}{'loss':>9}{'mean .. most':>16}{f'of {GRID_RUNS}':>13}{'starts':>9}")
    for name, method in METHODS.items():
        got = simulate(method, worlds)
        print(
            f"{name:26}{got.good_everywhere:>15.1%}{got.good_loads:>9.1%}{got.worst:>9.1%}"
            f"{f'{got.runs:.0f} .. {got.most_runs}':>16}{got.runs / GRID_RUNS:>13.0%}{got.starts:>9.0f}"
        )
    print("aim of the tuner: 95 % or more within 2 % at every load, with at most half of the full grid's runs")
