"""Arms that were not alternated: their ratio, Welch's interval, and the sentence where there is none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.comparison.effect import Interval
from lab.comparison.samples import RunSample
from lab.comparison.unpaired import unpaired

VALUES = st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=6)


def runs(*values: float | None, starts: tuple[int, ...] | None = None) -> list[RunSample]:
    launches = range(len(values)) if starts is None else starts
    return [RunSample(f"run {at}", "arm", at, value, launch=launches[at]) for at, value in enumerate(values)]


def imported(*values: float) -> list[RunSample]:
    """Runs of which no engine start is known."""
    return [RunSample(f"run {at}", "arm", at, value) for at, value in enumerate(values)]


@given(VALUES, VALUES)
def test_the_interval_is_welchs_on_logarithms(ours: list[float], theirs: list[float]) -> None:
    logs = [np.log(theirs), np.log(ours)]
    if any(np.ptp(side) < 1e-9 for side in logs):
        return  # scipy has no interval of no scatter
    expected = stats.ttest_ind(*logs, equal_var=False).confidence_interval(0.95)
    found = unpaired(runs(*ours), runs(*theirs))
    assert found.ratio is not None
    bounds = (found.ratio.low, found.ratio.high)
    assert bounds == pytest.approx((math.exp(min(expected.low, 700)), math.exp(min(expected.high, 700))), rel=1e-6)
    assert found.ratio.value == pytest.approx(math.exp(logs[0].mean() - logs[1].mean()))


def test_runs_of_one_engine_start_are_one_observation() -> None:
    found = unpaired(runs(10, 20, 30, starts=(0, 0, 0)), imported(30, 31))
    assert found.ratio is not None
    assert found.ratio == Interval(found.ratio.value, None, None)
    assert found.ratio.value == pytest.approx(math.sqrt(30 * 31) / 6000 ** (1 / 3))
    assert found.why == "no interval: one engine start of the baseline"
    assert found.basis == "3 runs on 1 engine start and 2 runs"


@pytest.mark.parametrize(
    ("ours", "theirs", "why"),
    [
        (imported(10), imported(20), "no interval: one run each"),
        (imported(10, 11), imported(20), "no interval: one run of the other arm"),
        (imported(10, 10), imported(20, 20), "no interval: all runs of each are equal"),
    ],
)
def test_without_scatter_there_is_a_ratio_and_no_interval(
    ours: list[RunSample], theirs: list[RunSample], why: str
) -> None:
    found = unpaired(ours, theirs)
    assert found.ratio is not None
    assert (found.ratio.low, found.ratio.high, found.why) == (None, None, why)


def test_unknown_values_and_zeros_have_no_ratio() -> None:
    assert unpaired(runs(None, None), runs(1.0, 2.0)).ratio is None
    assert unpaired(runs(0.0, 1.0), runs(1.0, 2.0)).why == "no ratio: a value is 0"
