"""Where a candidate stops paying."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lab.comparison.breakeven import Point, break_even, sentence
from lab.comparison.effect import Interval

_LEVELS = (1.0, 4.0, 16.0, 64.0)


def points(*gains: float, error: float = 0.05) -> list[Point]:
    return [
        Point(level, Interval(gain, gain * math.exp(-error), gain * math.exp(error)))
        for level, gain in zip(_LEVELS, gains, strict=False)
    ]


def test_a_crossing_is_interpolated_on_the_logarithm_of_the_concurrency() -> None:
    even = break_even(points(1.5, 1.2, 1 / 1.2, 0.7))
    assert (even.answer, len(even.crossings)) == ("crosses", 1)
    crossing = even.crossings[0]
    assert crossing.concurrency == pytest.approx(8.0)  # halfway from 4 to 16
    assert crossing.loses_above
    assert crossing.low is not None
    assert crossing.high is not None
    # The band leaves 0 where 0.05 of the fall of 2 ln 1.2 has been made up for.
    away = 0.05 / (2 * math.log(1.2)) * math.log(4)
    assert (crossing.low, crossing.high) == pytest.approx((8 * math.exp(-away), 8 * math.exp(away)))


def test_the_interval_reaches_over_points_that_cannot_be_told_from_1() -> None:
    crossing = break_even(points(1.5, 1.02, 0.98, 0.7)).crossings[0]
    assert crossing.low is not None
    assert crossing.high is not None
    assert 1 < crossing.low < 4
    assert 16 < crossing.high < 64


def test_a_bound_beyond_what_was_measured_is_unknown() -> None:
    crossing = break_even(points(1.02, 0.98)).crossings[0]
    assert (crossing.low, crossing.high) == (None, None)
    without = [Point(1.0, Interval(1.5, None, None)), Point(4.0, Interval(0.5, None, None))]
    assert break_even(without).crossings[0].low is None


def test_two_gains_at_one_concurrency_are_refused() -> None:
    with pytest.raises(ValueError, match="pool"):
        break_even([*points(1.2), *points(1.1)])
    with pytest.raises(ValueError, match="above 0"):
        break_even([Point(0.0, Interval(1.0, None, None))])


def test_the_interval_covers_the_true_crossing_as_often_as_it_says() -> None:
    """True gains fall along a line; every point is measured in 3 repeats with noise of its own and of its block."""
    rng = np.random.default_rng(1)
    truth = np.log(1.4) - 0.2 * np.log(_LEVELS)
    noise = 0.05 * rng.standard_normal((500, 4, 3)) + 0.03 * rng.standard_normal((500, 1, 3))
    effects = truth[:, None] + noise
    half = stats.t.ppf(0.975, 2) * effects.std(axis=-1, ddof=1) / math.sqrt(3)
    held = [_holds(mean, width, 1.4**5) for mean, width in zip(effects.mean(axis=-1), half, strict=True)]
    assert np.mean(held) >= 0.95


def _holds(means: np.ndarray, halves: np.ndarray, crossing: float) -> bool:
    measured = zip(_LEVELS, means, halves, strict=True)
    even = break_even(
        [Point(level, Interval(*np.exp([mean, mean - half, mean + half]))) for level, mean, half in measured]
    )
    return any((interval.low or 0) <= crossing <= (interval.high or math.inf) for interval in even.crossings)


def test_points_may_come_in_any_order_and_the_measured_range_is_told() -> None:
    even = break_even(points(1.5, 1.2, 1 / 1.2, 0.7)[::-1])
    assert even == break_even(points(1.5, 1.2, 1 / 1.2, 0.7))
    assert even.measured == (1.0, 64.0)
    assert break_even([]).measured is None


@pytest.mark.parametrize(
    ("gain", "sure"),
    [
        (Interval(1.2, 1.01, 1.4), True),
        (Interval(1.2, 1.0, 1.4), False),
        (Interval(1.2, 0.99, 1.4), False),
        (Interval(1.2, None, None), False),
        (Interval(0.8, 0.7, 0.99), True),
        (Interval(0.8, 0.7, 1.0), False),
        (Interval(0.8, 0.7, 1.01), False),
    ],
)
def test_a_point_is_sure_with_its_interval_on_one_side_of_1(gain: Interval, sure: bool) -> None:  # noqa: FBT001
    assert break_even([Point(4.0, gain)]).sure is sure


def test_a_gain_of_exactly_1_does_not_pay() -> None:
    even = break_even([Point(1.0, Interval(1.2, 1.1, 1.3)), Point(4.0, Interval(1.0, 0.9, 1.1))])
    assert even.answer == "crosses"
    assert even.crossings[0].concurrency == pytest.approx(4.0)
    assert even.crossings[0].low == pytest.approx(4 ** (math.log(1.1) / (math.log(1.1) - math.log(0.9))))
    assert even.crossings[0].high is None


def test_one_point_without_an_interval_leaves_every_crossing_without_one() -> None:
    measured = [*points(1.5, 1.2, 1 / 1.2), Point(64.0, Interval(0.7, None, None))]
    crossing = break_even(measured).crossings[0]
    assert (crossing.low, crossing.high) == (None, None)
    assert crossing.concurrency == pytest.approx(8.0)


def test_numbers_without_a_logarithm_are_refused() -> None:
    for concurrency, gain in ((0.0, 1.0), (-1.0, 1.0), (1.0, 0.0), (1.0, -1.0)):
        with pytest.raises(ValueError, match="above 0"):
            break_even([Point(concurrency, Interval(gain, None, None))])


@pytest.mark.parametrize(
    ("gains", "expected"),
    [
        ((1.5, 1.2, 1 / 1.2, 0.7), "pays up to concurrency 8.0 [6.6, 9.7]"),
        ((0.7, 1 / 1.2, 1.2, 1.5), "pays from concurrency 8.0 [6.6, 9.7]"),
        ((1.02, 0.98), "inconclusive: crosses 1× near concurrency 2.0"),
        ((0.8, 1.25, 0.8, 1.25), "inconclusive: crosses 1× near concurrency 2.0, 8.0, 32.0"),
        ((1.5, 1.3, 1.2), "pays everywhere measured (1 to 16)"),
        ((0.7,), "pays nowhere measured (1)"),
        (
            (1.5, 1.01),
            "inconclusive: better than the baseline everywhere measured (1 to 4), but not yet significantly",
        ),
        (
            (0.99,),
            "inconclusive: worse than the baseline everywhere measured (1), but not yet significantly",
        ),
        ((), "not measured"),
    ],
)
def test_where_it_pays_is_said_in_a_sentence(gains: tuple[float, ...], expected: str) -> None:
    assert sentence(break_even(points(*gains))) == expected
