"""Percentiles of many values are those of NumPy, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics import percentiles as module
from lab.metrics.percentiles import percentiles

_PERCENTS = (0, 50, 90, 95, 99, 100)


@given(
    st.lists(st.floats(0, 1e9) | st.sampled_from([0.0, 8.0, 8.01, 1e-300]), min_size=1, max_size=60),
    st.integers(1, 200),
)
def test_they_are_those_of_numpy(values: list[float], times: int) -> None:
    samples = np.repeat(np.array(values), times)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MANY", 0)
        assert percentiles(samples, _PERCENTS) == np.percentile(samples, _PERCENTS).tolist()


@pytest.mark.parametrize("strange", [-1.0, -0.0, np.nan])
def test_so_are_those_of_values_that_are_not_counted(strange: float) -> None:
    samples = np.append(np.linspace(1.0, 2.0, 6000), strange)
    computed = np.array(percentiles(samples, _PERCENTS))
    assert np.array_equal(computed, np.percentile(samples, _PERCENTS), equal_nan=True)


def test_they_are_exact_for_a_hundred_thousand_values() -> None:
    samples = np.random.default_rng(7).lognormal(3.0, 0.5, 100_000)
    assert percentiles(samples, _PERCENTS) == np.percentile(samples, _PERCENTS).tolist()
