"""A few runs of a draft say how fast every number of drafted tokens is."""

from __future__ import annotations

import math

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
    found = lengths(KS, {5: accepted})
    assert found == {k: pytest.approx(1 + sum(accepted[:k])) for k in KS}


def test_a_measured_chain_counts_for_itself_and_nothing_is_known_of_longer_ones() -> None:
    assert lengths(KS, {1: (0.5,), 3: (0.6, 0.4, 0.2)}) == {1: 1.5, 2: pytest.approx(2.0), 3: pytest.approx(2.2)}
    assert lengths(KS, {5: (0.6,)}) == {1: pytest.approx(1.6)}
    assert lengths(KS, {}) == {}


@given(shares, st.floats(0.9, 1.3), st.floats(0.0, 1.0))
def test_two_values_of_k_tell_the_price_of_a_round_for_those_between(
    accepted: tuple[float, ...], once: float, per_token: float
) -> None:
    rounds = lengths(KS, {5: accepted})
    true = {k: gain(rounds[k], once + per_token * k) for k in KS}
    found = curve(KS, rounds, {k: Gain(true[k], 1e-8) for k in (1, 5)})
    for place, k in enumerate(KS):
        assert found.gains[place] == pytest.approx(true[k], abs=0.01)


@given(shares, st.floats(0.9, 1.3), st.floats(0.0, 1.0), st.floats(-0.05, 0.05))
def test_what_a_setting_was_measured_to_be_replaces_what_the_line_says(
    accepted: tuple[float, ...], once: float, per_token: float, off: float
) -> None:
    rounds = lengths(KS, {5: accepted})
    true = {k: gain(rounds[k], once + per_token * k) + (off if k == 3 else 0) for k in KS}
    found = curve(KS, rounds, {k: Gain(true[k], 1e-8) for k in (1, 3, 5)})
    assert found.gains[2] == pytest.approx(true[3], abs=0.001)


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


def test_noise_never_makes_a_round_cheaper_than_half_a_step() -> None:
    rounds = lengths(KS, {5: (0.9, 0.8, 0.7, 0.6, 0.5)})
    found = curve(KS, rounds, {5: Gain(math.log(100.0), 1e-8)})
    assert found.gains.max() <= math.log(rounds[5] / 0.5) + 1e-9
