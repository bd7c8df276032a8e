"""Simulated tables that are measured until decided, by the schedule itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.comparison.compare import Comparison
from lab.comparison.samples import Array
from lab.schedule import Outcome
from lab.schedule.interim import Cell, compared
from lab.schedule.until_decided import UntilDecided
from lab.study import Study
from lab.study.parsing import study_from_dict
from lab.study.plan import PlannedRun
from tests.lab.comparison.simulations.tables_of_cells import Table
from tests.lab.schedule.measuring import RUN_S, START_S, measured

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Ended:
    """By cell: whether it has an effect, was called, how many blocks it has, whether its interval holds the truth."""

    real: Flags
    called: Flags  # faster or slower
    same: Flags  # called no difference
    blocks: Array
    held: Flags
    seconds: float

    @property
    def false_share(self) -> float:
        """The share of the calls that are false."""
        return float((self.called & ~self.real).sum() / max(self.called.sum(), 1))


def study_of(table: Table, budget_s: float) -> Study:
    """A study with an arm for each cell of a place and a load for each place."""
    arms = 1 + max(table.places.count(place) for place in table.places)
    return study_from_dict(
        {
            "name": "simulated",
            "target": "target",
            "arms": [{"name": f"a{n}", "baseline": n == 0, "flags": {"n": n}} for n in range(arms)],
            "workloads": [{"dataset": "reference"}],
            "loads": [
                {"max_concurrency": 1 + place, "num_prompts": 1 + place} for place in range(max(table.places) + 1)
            ],
            "repeats": "until decided",
            "budget": f"{max(1, round(budget_s / 60))} min",
        }
    )


def until_decided(table: Table, budget_s: float = 600_000.0) -> Ended:
    """Measure the table as a worker would measure its study."""
    numbers = {cell: number for number, cell in enumerate(_cells(table))}

    def world(run: PlannedRun) -> float:
        place, arm = run.load.max_concurrency - 1, int(run.arm.name[1:])
        if arm == 0:
            return float(table.baseline[table.places.index(place), run.repeat])
        return float(table.candidate[numbers[place, arm], run.repeat])

    outcomes: list[Outcome] = []
    study = study_of(table, budget_s)
    measured(UntilDecided(study), world, outcomes)
    judged = compared(study, outcomes)
    every = [judged[Cell("reference/all/64", f"c{1 + place}-n{1 + place}", f"a{arm}")] for place, arm in numbers]
    words = [verdict.word for _, verdict in every]
    starts = {(outcome.launch_index, outcome.run.arm.name) for outcome in outcomes}
    return Ended(
        real=table.truth != 0,
        called=np.array([word in ("faster", "slower") for word in words]),
        same=np.array([word == "no difference" for word in words]),
        blocks=np.array([float(comparison.blocks) for comparison, _ in every]),
        held=_held([comparison for comparison, _ in every], table.truth),
        seconds=len(outcomes) * RUN_S + len(starts) * START_S,
    )


def fixed_seconds(table: Table, repeats: int) -> float:
    """The time of a fixed plan, with the durations of the simulation."""
    places, arms = len(set(table.places)), 1 + max(table.places.count(place) for place in table.places)
    return repeats * ((len(table.places) + places) * RUN_S + arms * START_S)


def _cells(table: Table) -> list[tuple[int, int]]:
    """The place and the arm of each cell."""
    return [(place, 1 + table.places[:cell].count(place)) for cell, place in enumerate(table.places)]


def _held(comparisons: Sequence[Comparison], truth: Array) -> Flags:
    bounds = [comparison.ratio for comparison in comparisons]
    low = np.array([np.nan if bound is None or bound.low is None else bound.low for bound in bounds])
    high = np.array([np.nan if bound is None or bound.high is None else bound.high for bound in bounds])
    return np.asarray((np.log(low) <= truth) & (truth <= np.log(high)))
