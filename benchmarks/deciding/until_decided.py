"""Part until_decided: the share of a fixed plan's time that a study until decided needs, and its verdicts.

Simulated studies in which half of the cells have an effect, of 1.05 to 1.5 times up or down. Both are judged by the
verdicts of the pages. The schedule is the worker's own, with the fixed plan's time as its budget. Then the guarantees
under repeated testing: in worlds whose noise differs from cell to cell, with effects and without any, and of intervals
by the size of the effect. No processor time is part of any figure.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from host.settings import Settings
from lab.comparison.compare import compare_cells
from lab.comparison.samples import Array
from lab.comparison.verdict import verdicts
from tests.lab.comparison.simulations.stopped_tables import Ended, Flags, fixed_seconds, until_decided
from tests.lab.comparison.simulations.tables_of_cells import Table, cells_of, simulated

TABLES = 200
_SEED = 20261122
_RATIOS = (1.05, 1.1, 1.2, 1.5)
_MOST_BLOCKS = 12
_WITH_EFFECTS = 0.5


@dataclass(frozen=True)
class Plan:
    """A fixed plan to compare a study until decided with."""

    cells: int
    repeats: int
    noise: float  # standard deviation of a run's logarithm
    world: str = "a third"  # standard deviation of the noise from cell to cell

    @property
    def name(self) -> str:
        return f"{self.cells} cells × {self.repeats} repeats at {100 * self.noise:.0f} % noise"


PLANS = (Plan(30, 8, 0.02), Plan(12, 8, 0.02), Plan(6, 8, 0.02), Plan(12, 8, 0.03), Plan(12, 6, 0.01))
PROMISES = tuple(
    Plan(cells, 8, 0.02, world) for world in ("equal", "a third", "fourfold", "one wild cell") for cells in (6, 12)
)


#: All cells have the same effect, up or down: whether intervals hold it.
SIZES = (1.0, 1.01, 1.02, 1.03, 1.05)
_SIZES_PLAN = Plan(12, 8, 0.02)


@dataclass(frozen=True)
class Shares:
    """Shares over many tables."""

    called: float  # of the effects
    right: Array  # number of effects called in each table
    same: float  # of the cells without an effect: called no difference
    false_calls: float  # of a table's calls


def run(
    _settings: Settings,
    _repeats: int,
    tables: int = TABLES,
    plans: Sequence[Plan] = PLANS,
    promises: Sequence[Plan] = PROMISES,
    sizes: Sequence[float] = SIZES,
) -> None:
    """Simulate, and print a line for each plan and for each world of the promises."""
    print(f"Until decided: {tables} simulated studies a line; their budget is the fixed plan's time\n")
    print(f"{'':34} {'effects called':>41} {'others: no difference':>17} {'calls that are false':>22} {'time':>8}")
    print(
        f"{'fixed plan':34} {'fixed':>8} {'as long':>8} {'decided':>8} {'- fixed':>14} {'fixed':>8} {'decided':>8} "
        f"{'fixed':>13} {'decided':>8} {'share':>8}"
    )
    for plan in plans:
        began_s = time.monotonic()
        print(_held_against(plan, tables), flush=True)
        print(f"until_decided: {plan.name} took {time.monotonic() - began_s:.0f} s", file=sys.stderr)
    print("\nas long: a fixed plan whose number of repeats comes nearest to the time of the studies until decided")
    print("- fixed: points more than the fixed plan, and the 95 % interval of the simulation's luck")
    print(f"\nWhat is promised in spite of the looks, {tables} studies with effects and as many without any\n")
    print(f"{'':16} {'':>6} {'calls that':>11} {'effect-free tables':>20} {'intervals hold the truth':>28}")
    print(
        f"{'noise differs':16} {'cells':>6} {'are false':>11} {'with a call':>20} {'with effects':>15} {'without':>12}"
    )
    for plan in promises:
        print(_promised(plan, tables), flush=True)
    print("promised: at most 5 %, at most 5 %, and 93 to 97 % of intervals")
    print(f"\nIntervals that hold the truth, where all cells of {_SIZES_PLAN.name} have an effect of this size")
    for size in sizes:
        print(f"{size:4.2f} {_held_at(size, tables):>8.1%}", flush=True)


def _held_against(plan: Plan, tables: int) -> str:
    rng = np.random.default_rng(_SEED)
    drawn = [_drawn(rng, plan, _WITH_EFFECTS) for _ in range(tables)]
    fixed, seconds = _fixed(drawn, plan.repeats), fixed_seconds(drawn[0], plan.repeats)
    ended = [until_decided(table, seconds) for table in drawn]
    share = float(np.mean([each.seconds for each in ended])) / seconds
    as_long, decided = _fixed(drawn, max(2, round(share * plan.repeats))), _decided(ended)
    more, effects = decided.right - fixed.right, sum(int((table.truth != 0).sum()) for table in drawn)
    luck = 1.96 * float(more.std()) * math.sqrt(tables) / effects
    return (
        f"{plan.name:34} {fixed.called:>8.1%} {as_long.called:>8.1%} {decided.called:>8.1%} "
        f"{100 * more.sum() / effects:>+7.1f} ± {100 * luck:.1f} {fixed.same:>11.0%} "
        f"{decided.same:>8.0%} {fixed.false_calls:>13.1%} {decided.false_calls:>8.1%} {share:>8.0%}"
    )


def _promised(plan: Plan, tables: int) -> str:
    rng = np.random.default_rng(_SEED)
    mixed, without = (
        [
            until_decided(table, fixed_seconds(table, plan.repeats))
            for table in (_drawn(rng, plan, effects) for _ in range(tables))
        ]
        for effects in (_WITH_EFFECTS, 0.0)
    )
    false, held, held_without = (
        float(np.mean(column))
        for column in (
            [each.false_share for each in mixed],
            [each.held.mean() for each in mixed],
            [each.held.mean() for each in without],
        )
    )
    with_a_call = float(np.mean([each.called.any() for each in without]))
    return f"{plan.world:16} {plan.cells:>6} {false:>11.1%} {with_a_call:>20.1%} {held:>15.1%} {held_without:>12.1%}"


def _held_at(size: float, tables: int) -> float:
    rng = np.random.default_rng(_SEED)
    drawn = [_drawn(rng, _SIZES_PLAN, 1.0, (size,)) for _ in range(tables)]
    ended = [until_decided(table, fixed_seconds(table, _SIZES_PLAN.repeats)) for table in drawn]
    return float(np.mean([each.held.mean() for each in ended]))


def _drawn(rng: np.random.Generator, plan: Plan, with_effects: float, ratios: Sequence[float] = _RATIOS) -> Table:
    """Draw a table in which this share of the cells has an effect."""
    table = simulated(rng, plan.world, (plan.cells, _MOST_BLOCKS), ratio=1.0, noise=plan.noise)
    effects = np.log(rng.choice(ratios, plan.cells)) * rng.choice((-1, 1), plan.cells)
    truth = np.where(rng.random(plan.cells) < with_effects, effects, 0.0)
    return replace(table, candidate=table.candidate + truth[:, None], truth=truth)


def _fixed(tables: Sequence[Table], repeats: int) -> Shares:
    words = []
    for table in tables:
        cut = replace(table, baseline=table.baseline[:, :repeats], candidate=table.candidate[:, :repeats])
        words.append([verdict.word for verdict in verdicts(compare_cells(cells_of(cut), "higher"))])
    called = np.isin(words, ("faster", "slower"))
    return _shares(np.array([table.truth != 0 for table in tables]), called, np.array(words) == "no difference")


def _decided(ended: Sequence[Ended]) -> Shares:
    return _shares(
        *(np.array(column) for column in zip(*((each.real, each.called, each.same) for each in ended), strict=True))
    )


def _shares(real: Flags, called: Flags, same: Flags) -> Shares:
    """Return shares from flags of shape (tables, cells)."""
    false = (called & ~real).sum(axis=1) / np.maximum(called.sum(axis=1), 1)
    right = (called & real).sum(axis=1)
    return Shares(float(called[real].mean()), right, float(same[~real].mean()), float(false.mean()))
