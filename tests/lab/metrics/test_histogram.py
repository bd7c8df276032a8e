"""Histograms: which bucket a value falls into, and what is read back from them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics.histogram import GROWTH, SMALLEST, ZERO_BUCKET, bucket_value, cumulative, histogram, quantile

_VALUES = st.lists(st.just(0.0) | st.floats(1e-6, 1e7), min_size=1, max_size=60)


def counted(*values: float) -> dict[int, int]:
    return histogram(np.array(values))


def test_a_bucket_includes_its_upper_bound_and_tiny_values_count_as_zero() -> None:
    assert counted(1.0) == {0: 1}
    assert counted(GROWTH * 0.999, GROWTH * 1.001) == {1: 1, 2: 1}
    assert counted(0.0, SMALLEST / 2, 5.0, 5.0) == {ZERO_BUCKET: 2, math.ceil(math.log(5) / math.log(GROWTH)): 2}
    assert counted(SMALLEST) == {math.ceil(math.log(SMALLEST) / math.log(GROWTH)): 1}
    assert counted() == {}


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1e-9])
def test_what_is_no_duration_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match=r"^a histogram takes only finite values that are not negative$"):
        counted(1.0, wrong)


@given(st.floats(1e-6, 1e9))
def test_a_value_is_read_back_to_half_a_per_cent(value: float) -> None:
    ((bucket, count),) = counted(value).items()
    assert count == 1
    assert bucket_value(bucket) == pytest.approx(value, rel=0.0050001)


def test_nothing_is_read_back_as_nothing() -> None:
    assert bucket_value(ZERO_BUCKET) == 0.0
    assert quantile({}, 0.5) is None


@given(_VALUES, st.floats(0, 1))
def test_a_quantile_is_numpys_to_half_a_per_cent(values: list[float], q: float) -> None:
    estimated = quantile(counted(*values), q)
    assert estimated == pytest.approx(float(np.quantile(values, q)), rel=0.0051, abs=1e-9)


@given(_VALUES)
def test_all_steps_rise_to_the_share_of_values_not_above_them(values: list[float]) -> None:
    counts = counted(*values)
    steps, shares = cumulative(counts, 100)
    assert steps.tolist() == [bucket_value(bucket) for bucket in sorted(counts)]
    above = [sum(count for other, count in counts.items() if other <= bucket) for bucket in sorted(counts)]
    assert shares.tolist() == pytest.approx([step / len(values) for step in above])


@given(_VALUES, st.integers(2, 8))
def test_fewer_steps_are_a_selection_with_the_first_and_the_last(values: list[float], most: int) -> None:
    whole = dict(zip(*(column.tolist() for column in cumulative(counted(*values), 100)), strict=True))
    steps, shares = (column.tolist() for column in cumulative(counted(*values), most))
    assert len(steps) <= most
    assert {step: whole[step] for step in steps} == dict(zip(steps, shares, strict=True))
    assert (steps[0], steps[-1], shares[-1]) == (min(whole), max(whole), 1.0)


def test_the_steps_left_out_are_those_at_which_the_share_grows_least() -> None:
    """Of ten buckets, nine hold one value each and the seventh holds 91."""
    counts = dict.fromkeys(range(10), 1) | {6: 91}
    steps, shares = cumulative(counts, 3)
    assert steps.tolist() == [bucket_value(0), bucket_value(6), bucket_value(9)]
    assert shares.tolist() == [0.01, 0.97, 1.0]


def test_an_empty_histogram_has_no_steps() -> None:
    steps, shares = cumulative({}, 10)
    assert (steps.tolist(), shares.tolist()) == ([], [])
