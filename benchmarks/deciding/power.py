"""Part power: how many of a table's true effects each rule calls, and how many of its calls are false.

Every rule reads the same simulated tables, in which half of the cells have the effect and the noise of runs differs
from cell to cell by a third; and as many tables without any effect. No processor time is part of any figure.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.deciding import power_picture
from benchmarks.deciding.power_picture import Bar
from host.settings import Settings
from lab.comparison.compare import Comparison, compare_cells
from lab.comparison.verdict import verdicts
from tests.lab.comparison.simulations.tables_of_cells import Table, cells_of, simulated

TABLES = 200
_WORLD, _SEED = "a third", 20261122
#: A rule's verdict on each cell: 1 faster, -1 slower, 0 inconclusive; None for no difference.
Calls = Sequence[int | None]
_WORDS: Mapping[str, int | None] = {"faster": 1, "slower": -1, "no difference": None, "inconclusive": 0}


@dataclass(frozen=True)
class Plan:
    """A study to simulate, and the share of its effects that should be called."""

    cells: int
    repeats: int
    ratio: float
    noise: float  # standard deviation of a run's logarithm
    wanted: float

    @property
    def name(self) -> str:
        return f"{self.cells} cells × {self.repeats} repeats, {self.ratio:.2f}× at {100 * self.noise:.0f} % noise"


PLANS = (
    Plan(35, 3, 1.10, 0.02, 0.80),
    Plan(35, 3, 1.50, 0.05, 0.97),
    Plan(6, 3, 1.10, 0.02, 0.80),
    Plan(4, 3, 1.50, 0.05, 0.95),
    Plan(35, 2, 1.30, 0.03, 0.70),
)


@dataclass(frozen=True)
class Shares:
    """Shares over many tables; `false_calls` is the mean over tables of the share of a table's calls."""

    called: float
    false_calls: float
    false_tables: float  # of tables without any effect, those with a call


def _moderated(table: Table) -> Calls:
    return _words(compare_cells(cells_of(table), "higher"), strict=False)


def _moderated_strict(table: Table) -> Calls:
    return _words(compare_cells(cells_of(table), "higher"), strict=True)


def _alone(table: Table) -> Calls:
    """Test each cell with the degrees of freedom of its own repeats, and Holm's correction over the table."""
    return _words([compare_cells([cell], "higher")[0] for cell in cells_of(table)], strict=True)


def _flat(threshold: float) -> Callable[[Table], Calls]:
    """Test whether the ratio of the arms' mean rates is beyond a threshold, whatever the noise."""

    def calls(table: Table) -> Calls:
        ratios = np.exp(table.candidate).mean(axis=1) / np.exp(table.baseline).mean(axis=1)
        return _signs(ratios > 1 + threshold, ratios < 1 - threshold)

    return calls


def _overlap(table: Table) -> Calls:
    """Test whether the 95 % intervals of the two arms' means do not overlap."""
    base, tried = np.exp(table.baseline), np.exp(table.candidate)
    factor = float(stats.t.ppf(0.975, base.shape[1] - 1)) / math.sqrt(base.shape[1])
    gap = np.abs(tried.mean(axis=1) - base.mean(axis=1)) > factor * (
        base.std(axis=1, ddof=1) + tried.std(axis=1, ddof=1)
    )
    above = tried.mean(axis=1) > base.mean(axis=1)
    return _signs(gap & above, gap & ~above)


RULES: Mapping[str, Callable[[Table], Calls]] = {
    "Drafthouse": _moderated,
    "Drafthouse, strict": _moderated_strict,
    "each cell alone, Holm": _alone,
    "ratio beyond 2 %": _flat(0.02),
    "ratio beyond 20 %": _flat(0.20),
    "95 % intervals of arms apart": _overlap,
}


def run(_settings: Settings, _repeats: int, *, tables: int = TABLES, picture: Path | None = None) -> None:
    """Simulate and print; write the picture if a path is given."""
    bars: list[Bar] = []
    for place, plan in enumerate(PLANS):
        began_s = time.process_time()
        shares = {name: simulate(rule, plan, tables, _SEED + place) for name, rule in RULES.items()}
        _show(plan, shares, time.process_time() - began_s)
        bars += [Bar(plan.name, name, share.called, share.false_calls) for name, share in shares.items()]
    if picture is not None:
        picture.write_bytes(power_picture.drawn(bars, list(RULES), tables, picture.suffix))


def simulate(rule: Callable[[Table], Calls], plan: Plan, tables: int, seed: int) -> Shares:
    """Apply a rule to `tables` tables with effects, and as many without; equal seeds give equal tables."""
    rng = np.random.default_rng(seed)
    shape = {"cells": plan.cells, "repeats": plan.repeats}
    real = tables_of(rng, tables, **shape, ratio=plan.ratio, noise=plan.noise)
    empty = tables_of(rng, tables, **shape, ratio=1.0, noise=plan.noise)
    shares = np.array([_shares(rule(table), table.truth != 0) for table in real])
    called, false_calls = (float(mean) for mean in shares.mean(axis=0))
    return Shares(called, false_calls, float(np.mean([any(rule(table)) for table in empty])))


def tables_of(
    rng: np.random.Generator, tables: int, *, cells: int, repeats: int, ratio: float, noise: float
) -> list[Table]:
    """Simulate studies: half of the cells of each have the effect."""
    return [simulated(rng, _WORLD, (cells, repeats), ratio=ratio, noise=noise) for _ in range(tables)]


def cells_called(rule: Callable[[Table], Calls], table: Table) -> float:
    """Return the share of a table's true effects that a rule calls."""
    return _shares(rule(table), table.truth != 0)[0]


def _shares(calls: Calls, effect: NDArray[np.bool_]) -> tuple[float, float]:
    """Return the share of effects (all of them faster) that are called, and the share of calls that are false."""
    right = sum(call == 1 and real for call, real in zip(calls, effect, strict=True))
    wrong = sum(bool(call) if not real else call in {-1, None} for call, real in zip(calls, effect, strict=True))
    return right / int(effect.sum()), wrong / max(right + wrong, 1)


def _words(comparisons: Sequence[Comparison], *, strict: bool) -> Calls:
    return [_WORDS[verdict.word] for verdict in verdicts(comparisons, strict=strict)]


def _signs(above: NDArray[np.bool_], below: NDArray[np.bool_]) -> Calls:
    return [int(sign) for sign in above.astype(int) - below.astype(int)]


def _show(plan: Plan, shares: Mapping[str, Shares], cpu_s: float) -> None:
    ours = next(iter(shares.values()))
    print(f"\n{plan.name} (aim: {100 * plan.wanted:.0f} % called, 5 % false at most; {cpu_s:.0f} s of a processor)")
    width = max(map(len, shares))
    print(f"{'':{width}}  effects called  ours / its  calls false  effect-free tables with a call")
    for name, share in shares.items():
        ratio = f"{ours.called / share.called:.2f}" if share.called else "-"
        print(
            f"{name:{width}}  {share.called:14.1%}  {ratio:>10}  {share.false_calls:11.1%}  {share.false_tables:30.1%}"
        )
