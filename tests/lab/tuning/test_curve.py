"""A few runs of a draft say how fast every number of drafted tokens is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.tuning.curve import Gain, curve, lengths

KS = (1, 2, 3, 4, 5)
shares = st.lists(st.floats(0.05, 1.0), min_size=5, max_size=5).map(
    lambda steps: tuple(math.prod(steps[: place + 1]) for place in range(5))
)


def gain(length: float, cost: float) -> float:
    return math.log(length / cost)


@given(shares)
def test_the_longest_chain_tells_the_length_of_every_shorter_one(accepted: tuple[float, ...]) -> None:
    expected_lengths = lengths(KS, {5: accepted})
    assert expected_lengths == {k: pytest.approx(1 + sum(accepted[:k])) for k in KS}


def test_a_measured_chain_says_nothing_of_longer_ones() -> None:
    assert lengths(KS, {1: (0.5,), 3: (0.6, 0.4, 0.2)}) == {1: 1.5, 2: pytest.approx(2.0), 3: pytest.approx(2.2)}
    assert lengths(KS, {5: (0.6,)}) == {1: pytest.approx(1.6)}
    assert lengths(KS, {}) == {}


@given(shares, st.floats(0.9, 1.3), st.floats(0.0, 1.0))
def test_two_values_of_k_give_the_price_between_them(
    accepted: tuple[float, ...], once: float, per_token: float
) -> None:
    rounds = lengths(KS, {5: accepted})
    true = {k: gain(rounds[k], once + per_token * k) for k in KS}
    fitted = curve(KS, rounds, {k: Gain(true[k], 1e-8) for k in (1, 5)})
    for place, k in enumerate(KS):
        assert fitted.gains[place] == pytest.approx(true[k], abs=0.01)


@given(shares, st.sampled_from([(5,), (1, 5), (1, 3, 5)]), st.floats(1e-6, 1e-2))
def test_every_run_makes_every_setting_more_certain_and_its_own_the_most(
    accepted: tuple[float, ...], measured: tuple[int, ...], variance: float
) -> None:
    rounds = lengths(KS, {5: accepted})
    true = {k: Gain(gain(rounds[k], 1.1 + 0.1 * k), variance) for k in KS}
    before = curve(KS, rounds, {k: true[k] for k in measured}).covariance.diagonal()
    after = curve(KS, rounds, {k: true[k] for k in (*measured, 4)}).covariance.diagonal()
    assert (after <= before * 1.05).all()
    assert after[3] <= variance * 1.01
    assert (before > 0).all()


def test_a_curve_is_the_usual_line_corrected_by_what_was_measured() -> None:
    """The same by the other form of the correction: precisions add up."""
    ks, rounds = (1, 2, 4), {1: 1.7, 2: 2.2, 4: 2.8}
    measured = {4: Gain(math.log(1.9), 0.002), 1: Gain(math.log(1.5), 0.001)}
    costs = {k: rounds[k] / math.exp(gain.value) for k, gain in measured.items()}
    line = np.array([[1.0, k] for k in ks])
    bend = (0.02 * (costs[4] + costs[1]) / 2) ** 2
    before = line @ np.diag([0.09, 0.25]) @ line.T + bend * np.eye(3)
    seen = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    noise = np.diag([0.002 * costs[4] ** 2, 0.001 * costs[1] ** 2])
    left = np.linalg.inv(np.linalg.inv(before) + seen.T @ np.linalg.inv(noise) @ seen)
    usual = line @ np.array([1.0, 0.1])
    expected = usual + left @ seen.T @ np.linalg.inv(noise) @ (np.array([costs[4], costs[1]]) - seen @ usual)
    fitted = curve(ks, rounds, measured)
    assert fitted.gains == pytest.approx(np.log([rounds[k] for k in ks] / expected), rel=1e-6)
    assert fitted.covariance == pytest.approx(left / np.outer(expected, expected), rel=1e-5)


def test_a_round_is_never_taken_for_cheaper_than_half_a_step() -> None:
    fitted = curve((2,), {2: 2.0}, {2: Gain(math.log(8.0), 1e-12)})
    assert fitted.gains == pytest.approx([math.log(2.0 / 0.5)])
