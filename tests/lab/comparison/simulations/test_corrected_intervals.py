"""Intervals that say what a table's verdicts say: corrected for the table, and for looks after every repeat."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.effect import Interval
from lab.comparison.samples import RunSample
from lab.comparison.verdict import MARGIN, Judged, verdicts
from tests.lab.comparison.simulations.tables_of_cells import cells_of, simulated

_TABLES = 80


def tables(ratio: float, noise: float, cells: int = 12) -> Iterator[tuple[list[Comparison], np.ndarray]]:
    """Comparisons of tables whose true log ratios are known; half of the cells have this ratio."""
    rng = np.random.default_rng(7)
    for _ in range(_TABLES):
        table = simulated(rng, "a third", (cells, 3), ratio=ratio, noise=noise)
        yield compare_cells(cells_of(table), "higher"), table.truth


def looked_at(comparisons: list[Comparison]) -> list[Comparison]:
    return [replace(comparison, until_decided=True) for comparison in comparisons]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("looks", [False, True])
def test_an_interval_excludes_1_exactly_where_the_word_does(*, strict: bool, looks: bool) -> None:
    words: set[str] = set()
    for place, (cells, _) in enumerate(tables(1.08, 0.02)):
        if place == 20:
            break
        table = looked_at(cells) if looks else cells
        for comparison, verdict in zip(table, verdicts(table, strict=strict), strict=True):
            alone, corrected = comparison.ratio, verdict.interval
            assert corrected is not None
            assert alone is not None
            assert corrected.low is not None
            assert corrected.high is not None
            assert corrected.value == pytest.approx(alone.value)
            assert corrected.low <= corrected.value <= corrected.high
            excluded = corrected.low >= 1 or corrected.high <= 1
            within = corrected.low * 1.000001 >= 1 / (1 + MARGIN) and corrected.high <= (1 + MARGIN) * 1.000001
            assert verdict.claims == len(table)
            assert {"faster": excluded, "slower": excluded, "no difference": within, "inconclusive": not excluded}[
                verdict.word
            ]
            words.add(verdict.word)
    assert {"faster", "inconclusive"} <= words


def test_intervals_of_called_cells_hold_the_truth_as_often_as_calls_do() -> None:
    missed: list[float] = []
    for cells, truth in tables(1.1, 0.03):
        called = [
            (verdict.interval, real)
            for verdict, real in zip(verdicts(cells), truth, strict=True)
            if verdict.word in ("faster", "slower")
        ]
        missed.append(sum(not holds(interval, real) for interval, real in called) / max(1, len(called)))
    assert np.mean(missed) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / _TABLES)


def test_in_the_strict_reading_all_intervals_hold_their_truth_together() -> None:
    missed = []
    for cells, truth in tables(1.1, 0.03):
        judged = zip(verdicts(cells, strict=True), truth, strict=True)
        missed.append(any(not holds(verdict.interval, real) for verdict, real in judged))
    assert np.mean(missed) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / _TABLES)


def holds(interval: Interval | None, truth: float) -> bool:
    assert interval is not None
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= math.exp(truth) <= interval.high


def test_a_comparison_that_stands_alone_is_not_widened() -> None:
    (compared, _) = next(tables(1.1, 0.02, cells=1))
    (verdict,) = verdicts(compared)
    assert compared[0].ratio is not None
    assert verdict.interval is not None
    assert (verdict.interval.low, verdict.interval.high) == pytest.approx(
        (compared[0].ratio.low, compared[0].ratio.high)
    )
    assert verdicts(compared, strict=True)[0].interval == verdict.interval


def test_controls_are_not_corrected() -> None:
    (compared, _) = next(tables(1.1, 0.02))
    control = replace(compared[0], control=True)
    judged = verdicts([control, *compared[1:]])[0]
    assert Judged(control, judged).ratio == control.ratio


def test_differences_hold_the_truth_where_levels_drift_and_ratios_do_not() -> None:
    """Two repeats of six like cells, each repeat at a level of its own. The promise: 95 of 100 differences."""
    rng, ratio, drift, noise = np.random.default_rng(1), 0.3, 0.05, 0.015
    truth = 100 * (ratio - 1) * math.exp((drift**2 + noise**2) / 2)  # of the means of log-normal numbers
    held: list[bool] = []

    def runs(arm: str, numbers: np.ndarray) -> list[RunSample]:
        return [RunSample(f"{arm}{repeat}", arm, repeat, value) for repeat, value in enumerate(numbers.tolist())]

    for _ in range(40):
        levels = 100 * np.exp(drift * rng.standard_normal((6, 1, 2)) + noise * rng.standard_normal((6, 2, 2)))
        cells = [CellRuns(runs(f"b{n}", base), runs(f"c{n}", ratio * tried)) for n, (base, tried) in enumerate(levels)]
        for compared in compare_cells(cells, "higher"):
            difference = compared.difference
            assert difference is not None
            assert difference.low is not None
            assert difference.high is not None
            held.append(difference.low <= truth <= difference.high)
    assert np.mean(held) >= 0.93
