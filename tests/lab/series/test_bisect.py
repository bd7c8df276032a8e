"""A bisect decides by outcomes alone: whatever is planted is found in few steps, or it says what it cannot tell."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.series.alarm import MEASURES
from lab.series.bisect import MOST_MEASUREMENTS, End, Tried, described, next_step

SPEEDUP, ACCEPTANCE = MEASURES


def bisected(values: Sequence[float | None], noise: float = 0.001, seed: int = 0) -> tuple[End, list[int]]:
    """Measure versions with these values, two blocks each time, until the end; gives the versions measured, too."""
    random = np.random.default_rng(seed)
    tried = [Tried(f"v{number}") for number in range(len(values))]
    taken: list[int] = []
    while not isinstance(step := next_step(tried, SPEEDUP), End):
        taken.append(step.version)
        its, value = tried[step.version], values[step.version]
        if value is None:
            tried[step.version] = Tried(its.name, failed="it cannot be built")
            continue
        blocks = (*its.blocks, *(math.log(value) + float(random.normal(0, noise)) for _ in range(2)))
        tried[step.version] = Tried(its.name, blocks, its.measurements + 1)
        assert its.name in described(tried, step.version, SPEEDUP)
    return step, taken


@given(st.integers(2, 60), st.data())
def test_a_planted_fall_is_found_in_log2_steps_the_ends_and_two_checks(count: int, data: st.DataObject) -> None:
    first_bad = data.draw(st.integers(1, count - 1))
    end, taken = bisected([1.4 if version < first_bad else 1.2 for version in range(count)])
    assert end.first_bad == f"v{first_bad}"
    assert end.wrong is not None
    assert end.wrong < 0.05
    assert len(set(taken)) <= math.ceil(math.log2(count - 1)) + 4
    assert len(taken) <= len(set(taken)) + 4  # the first blocks may not be enough to tell the ends apart


def test_a_noisy_engine_is_measured_until_it_is_decided() -> None:
    found = [bisected([1.4] * 3 + [1.1] * 4, noise=0.06, seed=seed) for seed in range(40)]
    assert sum(end.first_bad == "v3" for end, _ in found) >= 38
    assert all(end.first_bad in ("v3", None) for end, _ in found)
    assert max(len(taken) for _, taken in found) > 8


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (
            [1.4, 1.4, None, 1.2],
            "the first bad version is one of v2, v3: v1 is good and v3 bad; v2 could not be measured",
        ),
        ([1.4, 1.2, 1.4, 1.4, 1.2], "there is more than one change: v3 is good and v4 bad, but v1 before it bad"),
        ([1.2, 1.3, 1.4], "v0 is said to be good and v2 bad, but the speed-up is 1."),
        ([1.4, 1.4, 1.4], "there is nothing to find: the speed-up of v0 and v2 differs by"),
        ([None, 1.4, 1.2], "nothing can be told: the good end, v0, has no value: it cannot be built"),
        ([1.4, math.sqrt(1.4 * 1.2), 1.2], "v1 is inconclusive"),
    ],
)
def test_what_cannot_be_told_is_said(values: list[float | None], sentence: str) -> None:
    end, taken = bisected(values)
    assert end.first_bad is None
    assert sentence in end.sentence
    assert len(taken) <= MOST_MEASUREMENTS * 3


def test_a_bisect_that_is_killed_goes_on_with_the_same_step() -> None:
    def taken_until(count: int) -> list[Tried]:
        tried = [Tried(f"v{number}") for number in range(9)]
        for _ in range(count):
            step = next_step(tried, ACCEPTANCE)
            assert not isinstance(step, End)
            blocks = (math.log(2.6 if step.version < 5 else 2.2),) * 2
            tried[step.version] = Tried(f"v{step.version}", blocks, 1)
        return tried

    def next_steps() -> list[object]:
        return [next_step(taken_until(count), ACCEPTANCE) for count in range(5)]

    assert next_steps() == next_steps()
