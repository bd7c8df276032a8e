"""The capacity that known trials show, to the digit: what users were shown does not drift."""

from __future__ import annotations

import pytest

from lab.capacity import attainment
from lab.capacity.attainment import Observation, of_all, of_repeat

#: Two repeats: load, requests within the SLO of 200, repeat.
TRIALS = [
    Observation(load, 200, within, repeat)
    for load, within, repeat in [(8, 200, 0), (16, 198, 0), (32, 120, 0), (22, 185, 0), (20, 191, 1), (24, 170, 1)]
]


def test_the_capacity_of_a_repeat_and_over_all_of_them() -> None:
    """Median, and the bounds of the interval of 95 %."""
    attainment._table.cache_clear()
    attainment._log_at_least.cache_clear()
    assert of_repeat(TRIALS, 0, 0.95).interval == pytest.approx((20.0858556, 13.9995488, 25.6326352), rel=1e-6)
    assert of_repeat(TRIALS, 1, 0.95).interval == pytest.approx((19.8549787, 14.2227919, 33.4410572), rel=1e-6)
    assert of_all(TRIALS, 0.95).interval == pytest.approx((20.0821509, 15.703766, 22.7907497), rel=1e-6)
    assert of_all(TRIALS[:4], 0.95).interval == pytest.approx((20.4932175, 13.9099734, 28.0732449), rel=1e-6)
