"""What it costs to look after every block: by simulated random walks, and by the properties of the correction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from lab.comparison.looks import FIRST_LOOK, LAST_LOOK, paid, unpaid
from lab.comparison.samples import RunSample
from lab.comparison.verdict import verdicts
from tests.lab.comparison.one_cell import compare

LOOKS = np.arange(FIRST_LOOK, LAST_LOOK + 1, dtype=np.float64)


@pytest.mark.parametrize("level", [0.05, 0.01])
def test_of_walks_without_a_drift_that_many_ever_reach_the_level(level: float) -> None:
    walks, rng = 200_000, np.random.default_rng(5)
    bounds = unpaid(level, LOOKS, 1)
    at, reached = rng.standard_normal(walks), np.zeros(walks, dtype=np.bool_)
    for blocks, bound in zip(LOOKS, bounds, strict=True):
        at = at + rng.standard_normal(walks)
        reached |= 2 * special.ndtr(-np.abs(at) / np.sqrt(blocks)) <= bound
    assert reached.mean() == pytest.approx(level, rel=0.06)


@given(st.floats(1e-12, 0.9), st.integers(FIRST_LOOK, LAST_LOOK), st.integers(1, 9))
def test_no_p_value_is_made_smaller_and_the_inverse_gives_it_back(p: float, blocks: int, like: int) -> None:
    (paid_p,) = paid(np.array([p]), np.array([blocks]), [like])
    assert paid_p >= p * (1 - 1e-9)
    if 1e-11 < paid_p < 0.9:
        assert unpaid(float(paid_p), np.array([float(blocks)]), like)[0] == pytest.approx(p, rel=1e-3)


@given(st.lists(st.floats(1e-10, 1.0), min_size=2, max_size=9), st.integers(1, 2 * LAST_LOOK), st.integers(1, 9))
def test_the_order_of_p_values_stays(p_values: list[float], blocks: int, like: int) -> None:
    paid_p = paid(np.array(sorted(p_values)), np.full(len(p_values), blocks), [like] * len(p_values))
    assert (np.diff(paid_p) >= 0).all()
    assert ((paid_p >= 0) & (paid_p <= 1)).all()


def test_a_p_value_of_0_stays_0_and_none_gives_none() -> None:
    assert paid(np.array([0.0]), np.array([3]), [1]).tolist() == [0.0]
    assert paid(np.array([]), np.array([]), []).size == 0


def samples(values: list[float], arm: str, *, until_decided: bool) -> list[RunSample]:
    return [RunSample(f"{arm}{n}", arm, n, value, until_decided=until_decided) for n, value in enumerate(values)]


@pytest.mark.parametrize("until_decided", [False, True])
def test_looks_are_paid_for_in_the_verdict_and_not_in_the_interval(*, until_decided: bool) -> None:
    base, tried = [100.0, 101.0, 99.0, 100.5], [102.2, 102.4, 102.2, 102.0]
    comparison = compare(
        samples(base, "plain", until_decided=until_decided),
        samples(tried, "draft", until_decided=until_decided),
        "higher",
    )
    (verdict,) = verdicts([comparison])
    assert comparison.ratio is not None
    assert comparison.ratio.low == pytest.approx(1.0073, abs=1e-4)
    assert verdict.word == ("inconclusive" if until_decided else "faster")
    assert verdict.more_repeats == (1 if until_decided else 0)
    assert ("looked at after every repeat" in comparison.basis) == until_decided
