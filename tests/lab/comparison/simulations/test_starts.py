"""By simulation: engine starts as a level of their own keep the promise, however much they differ.

Tables of arms that are measured in rounds on one start or several, or once on each start. The promise: where starts
differ by 0, 1 or 3 %, of tables of identical arms at most 5 % hold a false call, and at most 5 % a false overall one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from lab.comparison.compare import CellRuns, compare_cells
from lab.comparison.samples import RunSample
from lab.comparison.tables import starts_of_means, sweep
from lab.comparison.verdict import verdicts

TABLES = 40
#: Three standard deviations of the simulation's own luck, for a share of 5 %.
LUCK = 3 * math.sqrt(0.05 * 0.95 / TABLES)


@dataclass(frozen=True)
class Plan:
    arms: int
    starts: int
    rounds: int  # 1: a single long window
    cells: int = 6
    noise: float = 0.04  # of a window

    @property
    def prompts(self) -> float:
        """How differently the arms take the prompts of a round, which are the same on every start."""
        return 0.02 if self.rounds > 1 else 0.0


@dataclass(frozen=True)
class Outcome:
    called: bool
    overall: bool
    held: float  # of the intervals of cells, those that hold the truth


def table(rng: np.random.Generator, plan: Plan, *, starts: float, ratio: float = 1.0) -> list[list[CellRuns]]:
    """Return the cells of each arm, all with this ratio. `starts` is by how much starts differ, for all cells alike."""
    shift = starts * rng.standard_normal((plan.arms + 1, 1, plan.starts, 1))
    shape = (plan.arms + 1, plan.cells, plan.starts, plan.rounds)
    logs = shift + plan.noise * rng.standard_normal(shape)
    logs += plan.prompts * rng.standard_normal((plan.arms + 1, plan.cells, 1, plan.rounds))
    logs[1:] += math.log(ratio)

    def runs(arm: int, cell: int) -> list[RunSample]:
        values = np.exp(logs[arm, cell])
        return [
            RunSample(
                f"{arm}-{cell}-{start}",
                str(arm),
                start,
                float(of_start.mean()),
                launch=start,
                rounds=of_start if plan.rounds > 1 else None,
            )
            for start, of_start in enumerate(values)
        ]

    return [[CellRuns(runs(0, cell), runs(arm, cell)) for cell in range(plan.cells)] for arm in range(1, plan.arms + 1)]


def outcome(arms: list[list[CellRuns]], ratio: float = 1.0, history: list[list[float]] | None = None) -> Outcome:
    comparisons = compare_cells([cell for cells in arms for cell in cells], "higher", history=history or ())
    starts, count = starts_of_means(arms), len(arms[0])
    means = [
        sweep(cells, comparisons[first : first + count], "higher", starts)
        for first, cells in zip(range(0, len(comparisons), count), arms, strict=True)
    ]
    bounds = [comparison.ratio for comparison in comparisons]
    held = [bool(bound and bound.low and bound.high and bound.low <= ratio <= bound.high) for bound in bounds]
    called, overall = (
        any(verdict.word in ("faster", "slower") for verdict in verdicts(judged)) for judged in (comparisons, means)
    )
    return Outcome(called, overall, float(np.mean(held)))


def shares(plan: Plan, starts: float, tables: int = TABLES) -> tuple[float, float, float]:
    """Return the shares of tables of identical arms with a call and an overall one, and of intervals that hold 1."""
    rng = np.random.default_rng([plan.arms, plan.starts, plan.rounds])
    found = [outcome(table(rng, plan, starts=starts)) for _ in range(tables)]
    return tuple(float(np.mean([getattr(each, name) for each in found])) for name in ("called", "overall", "held"))  # type: ignore[return-value]  # three


@pytest.mark.parametrize("starts", [0.0, 0.01, 0.03])
@pytest.mark.parametrize(
    "plan", [Plan(1, 1, 8), Plan(2, 1, 8), Plan(2, 2, 4), Plan(1, 2, 4), Plan(2, 2, 1), Plan(2, 3, 1)]
)
def test_identical_arms_are_seldom_called_however_much_starts_differ(plan: Plan, starts: float) -> None:
    called, overall, held = shares(plan, starts)
    assert called <= 0.05 + LUCK
    assert overall <= 0.05 + LUCK
    assert held >= 0.93


@pytest.mark.parametrize(("plan", "ratio"), [(Plan(2, 1, 8), 1.2), (Plan(2, 2, 4), 1.15), (Plan(2, 2, 1), 1.15)])
def test_effects_well_above_what_starts_can_do_are_called(plan: Plan, ratio: float) -> None:
    rng = np.random.default_rng(1)
    found = [outcome(table(rng, plan, starts=0.01, ratio=ratio), ratio) for _ in range(30)]
    assert np.mean([each.overall for each in found]) >= 0.9
    assert plan.rounds == 1 or np.mean([each.called for each in found]) >= 0.9


def test_earlier_starts_that_agree_narrow_what_one_start_decides() -> None:
    rng = np.random.default_rng(2)
    arms = table(rng, Plan(1, 1, 8), starts=0.0)
    earlier = (100 * np.exp(0.003 * rng.standard_normal((30, 3)))).tolist()
    blind = compare_cells(arms[0], "higher")[0]
    informed = compare_cells(arms[0], "higher", history=earlier)[0]
    assert blind.effect is not None
    assert informed.effect is not None
    assert informed.effect.interval().high < 0.9 * blind.effect.interval().high  # type: ignore[operator]  # none is None
    assert informed.basis.endswith("(a wide prior and earlier starts)")
    assert blind.basis.endswith("engine starts that differ by 3.0 % (a wide prior)")


def test_what_only_starts_leave_inconclusive_asks_for_more_of_them() -> None:
    rng = np.random.default_rng(3)
    quiet = Plan(1, 1, 40, noise=0.01)
    (verdict, *_) = verdicts(compare_cells(table(rng, quiet, starts=0.0, ratio=1.06)[0], "higher"))
    assert (verdict.word, verdict.more_repeats) == ("inconclusive", None)
    assert verdict.more_starts
    assert verdict.would_decide.endswith("more engine starts") or verdict.more_starts == 1
    enough = Plan(1, 1 + verdict.more_starts, 40, noise=0.01)
    words = [
        verdict.word for verdict in verdicts(compare_cells(table(rng, enough, starts=0.0, ratio=1.06)[0], "higher"))
    ]
    assert words.count("faster") >= 4
