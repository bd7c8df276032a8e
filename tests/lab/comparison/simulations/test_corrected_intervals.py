"""Intervals that say what a table's verdicts say: corrected for the table, and for looks after every repeat."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.effect import Interval
from lab.comparison.verdict import MARGIN, Verdict, alone_sentence, shown_gain, shown_ratio, verdicts
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
            assert {"faster": excluded, "slower": excluded, "no difference": within, "not enough data": not excluded}[
                verdict.word
            ]
            words.add(verdict.word)
    assert {"faster", "not enough data"} <= words


def test_the_called_ones_hold_the_truth_as_often_as_the_calls_are_true() -> None:
    missed: list[float] = []
    for cells, truth in tables(1.1, 0.03):
        called = [
            (verdict.interval, real)
            for verdict, real in zip(verdicts(cells), truth, strict=True)
            if verdict.word in ("faster", "slower")
        ]
        missed.append(sum(not holds(interval, real) for interval, real in called) / max(1, len(called)))
    assert np.mean(missed) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / _TABLES)


def test_in_the_strict_reading_all_intervals_of_a_table_hold_their_truth_together() -> None:
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


def test_without_an_interval_the_ratio_stands_alone_and_controls_are_not_corrected() -> None:
    unknown = Comparison("higher", 1, None, Interval(1.4, None, None), None, None, "1 repeat")
    (verdict,) = verdicts([unknown])
    assert (verdict.interval, shown_ratio(unknown, verdict)) == (None, unknown.ratio)
    (compared, _) = next(tables(1.1, 0.02))
    control = replace(compared[0], control=True)
    judged = verdicts([control, *compared[1:]])[0]
    assert shown_ratio(control, judged) == control.ratio


def test_a_gain_is_the_ratio_the_better_way_round() -> None:
    comparison = Comparison("lower", 3, None, Interval(0.8, 0.7, 0.9), None, None, "3 repeats")
    verdict = Verdict("faster", 0.01, 1.0, 0, Interval(0.8, 0.64, 1.0))
    assert shown_gain(comparison, verdict) == Interval(1.25, 1.0, 1 / 0.64)
    assert shown_ratio(comparison, verdict) == verdict.interval


def test_what_only_the_correction_leaves_open_is_said_in_these_words() -> None:
    compared = Comparison("higher", 3, None, Interval(1.42, 1.01, 1.99), None, None, "3 repeats")
    wider = Verdict("not enough data", 0.2, 1.0, 1, Interval(1.42, 0.8, 2.5), claims=12)
    assert alone_sentence(compared, wider) == (
        "alone 1.42× [1.01, 1.99] would be faster; corrected for 12 comparisons it is open"
    )
    looked = replace(compared, better="lower", until_decided=True)
    assert alone_sentence(looked, replace(wider, claims=1)) == (
        "alone 1.42× [1.01, 1.99] would be slower; paid for its looks after every repeat it is open"
    )
    assert alone_sentence(compared, replace(wider, word="faster")) == ""
    assert alone_sentence(replace(compared, ratio=Interval(1.42, 0.9, 1.99)), wider) == ""
    assert alone_sentence(replace(compared, ratio=Interval(1.42, None, None)), wider) == ""


def test_cells_alone_keep_their_interval_in_the_comparison() -> None:
    (cells, _) = next(tables(1.1, 0.03))
    for comparison, verdict in zip(cells, verdicts(cells, strict=True), strict=True):
        assert comparison.ratio is not None
        assert verdict.interval is not None
        assert comparison.ratio.low is not None
        assert verdict.interval.low is not None
        assert verdict.interval.low <= comparison.ratio.low or verdict.interval.low == 1.0


def test_an_empty_table_has_no_intervals() -> None:
    assert verdicts([]) == ()
    assert compare_cells([CellRuns([], [])], "higher")[0].ratio is None
