"""Percentiles of several runs are those of their added histograms, and never the mean of the runs' percentiles."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics.histogram import histogram, quantile


def pooled(runs: list[np.ndarray]) -> dict[int, int]:
    """The histograms of all runs added up, as the warehouse adds them."""
    return sum((Counter(histogram(run)) for run in runs), Counter())


_RUN = st.lists(st.floats(min_value=1e-3, max_value=1e7), min_size=1, max_size=120).map(np.array)
_QUANTILES = st.sampled_from([0.0, 0.5, 0.9, 0.95, 0.99, 1.0])


@given(st.lists(_RUN, min_size=1, max_size=6), _QUANTILES)
def test_a_pooled_percentile_is_within_one_per_cent_of_the_exact_one(runs: list[np.ndarray], q: float) -> None:
    exact = float(np.quantile(np.concatenate(runs), q))
    assert quantile(pooled(runs), q) == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.95, 0.99])
def test_runs_of_different_length_and_tail_are_pooled_by_their_requests(q: float) -> None:
    rng = np.random.default_rng(1)
    runs = [rng.lognormal(4.0, 0.3, 5000), rng.lognormal(5.0, 0.8, 500), rng.lognormal(6.5, 0.2, 50)]
    exact = float(np.quantile(np.concatenate(runs), q))
    averaged = float(np.mean([np.quantile(run, q) for run in runs]))
    assert quantile(pooled(runs), q) == pytest.approx(exact, rel=0.01)
    assert averaged != pytest.approx(exact, rel=0.05)
