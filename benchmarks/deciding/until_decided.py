"""Part until_decided: how much of a fixed plan's time a study needs that measures until decided, and what it calls.

Simulated studies in which half of the cells have an effect, of 1.05 to 1.5 times up or down, and the noise of runs
differs from cell to cell by a third. Both are judged by the verdicts of the pages; the schedule is the worker's own,
with 60 % of the fixed plan's time as its budget. No processor time is part of any figure.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.deciding.power import cells_of
from lab.comparison.compare import compare_cells
from lab.comparison.verdict import verdicts
from tests.lab.comparison.simulations.stopped_tables import until_decided
from tests.lab.comparison.simulations.tables_of_cells import Table, simulated
from tests.lab.schedule.measuring import RUN_S, START_S
from warehouse.settings import Settings

TABLES = 50
_BUDGET, _SEED = 0.6, 20261122
_RATIOS = (1.05, 1.1, 1.2, 1.5)
_MOST_BLOCKS = 12


@dataclass(frozen=True)
class Plan:
    """A fixed plan that a study until decided is held against."""

    cells: int
    repeats: int
    noise: float  # standard deviation of a run's logarithm

    @property
    def name(self) -> str:
        return f"{self.cells} cells × {self.repeats} repeats at {100 * self.noise:.0f} % noise"


PLANS = (Plan(30, 8, 0.02), Plan(12, 8, 0.02), Plan(6, 8, 0.02), Plan(12, 8, 0.03), Plan(12, 6, 0.01))


@dataclass(frozen=True)
class Shares:
    """Shares over many tables; `seconds` of a table on average."""

    called: float  # of the effects
    false_calls: float  # of a table's calls
    seconds: float


def run(_settings: Settings, _repeats: int, tables: int = TABLES, plans: Sequence[Plan] = PLANS) -> None:
    """Simulate and print a line for each plan."""
    print(f"Until decided: {tables} simulated studies a line, {_BUDGET:.0%} of the fixed plan's time as budget\n")
    print(f"{'fixed plan':34} {'effects called':>20} {'calls that are false':>24} {'time':>8}")
    print(f"{'':34} {'fixed':>10} {'decided':>9} {'fixed':>14} {'decided':>9} {'share':>8}")
    for plan in plans:
        began_s = time.monotonic()
        fixed, decided = _both(plan, tables)
        print(
            f"{plan.name:34} {fixed.called:>10.1%} {decided.called:>9.1%} {fixed.false_calls:>14.1%} "
            f"{decided.false_calls:>9.1%} {decided.seconds / fixed.seconds:>8.0%}",
            flush=True,
        )
        print(f"until_decided: {plan.name} took {time.monotonic() - began_s:.0f} s", file=sys.stderr)


def _both(plan: Plan, tables: int) -> tuple[Shares, Shares]:
    rng = np.random.default_rng(_SEED)
    drawn = [_mixed(rng, plan) for _ in range(tables)]
    seconds = fixed_seconds(drawn[0], plan.repeats)
    called, false = (
        float(np.nanmean(column)) for column in zip(*(_fixed(t, plan.repeats) for t in drawn), strict=True)
    )
    ended = [until_decided(table, _BUDGET * seconds) for table in drawn]
    decided = Shares(
        float(np.mean([table.called[table.real].mean() for table in ended if table.real.any()])),
        float(np.mean([table.false_share for table in ended])),
        float(np.mean([table.seconds for table in ended])),
    )
    return Shares(called, false, seconds), decided


def _mixed(rng: np.random.Generator, plan: Plan) -> Table:
    table = simulated(rng, "a third", (plan.cells, _MOST_BLOCKS), ratio=1.0, noise=plan.noise)
    effects = np.log(rng.choice(_RATIOS, plan.cells)) * rng.choice((-1, 1), plan.cells)
    truth = np.where(rng.random(plan.cells) < 0.5, 0.0, effects)
    return replace(table, candidate=table.candidate + truth[:, None], truth=truth)


def fixed_seconds(table: Table, repeats: int) -> float:
    """The time of a fixed plan, with the durations of the simulation."""
    places, arms = len(set(table.places)), 1 + max(table.places.count(place) for place in table.places)
    return repeats * ((len(table.places) + places) * RUN_S + arms * START_S)


def _fixed(table: Table, repeats: int) -> tuple[float, float]:
    """The share of effects called, NaN if there are none, and the share of calls that are false."""
    cut = replace(table, baseline=table.baseline[:, :repeats], candidate=table.candidate[:, :repeats])
    words = [verdict.word for verdict in verdicts(compare_cells(cells_of(cut), "higher"))]
    called, real = np.array([word in ("faster", "slower") for word in words]), table.truth != 0
    return (
        float(called[real].mean()) if real.any() else float("nan"),
        float((called & ~real).sum() / max(called.sum(), 1)),
    )
