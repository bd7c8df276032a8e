from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.advice import prediction

ALPHAS = st.floats(0, 1)
GAMMAS = st.integers(1, 16)
COSTS = st.floats(0, 2)


def test_a_published_example_does_not_follow_from_its_formula() -> None:
    """The article says roughly 4.5 for 0.8 and 5."""
    assert prediction.tau(0.8, 5) == pytest.approx(3.689, abs=0.001)


def test_tau_is_what_a_simulation_of_rounds_gives() -> None:
    chance = random.Random(1)  # noqa: S311 - a simulation
    rounds = 200_000
    accepted = sum(next((at for at in range(4) if chance.random() >= 0.6), 4) for _ in range(rounds))
    assert 1 + accepted / rounds == pytest.approx(prediction.tau(0.6, 4), rel=0.005)


@given(ALPHAS, GAMMAS)
def test_tau_lies_between_nothing_accepted_and_all(alpha: float, gamma: int) -> None:
    assert 1 <= prediction.tau(alpha, gamma) <= gamma + 1
    assert prediction.tau(0, gamma) == 1
    assert prediction.tau(1, gamma) == gamma + 1


@given(st.floats(0.01, 0.99), GAMMAS)
def test_alpha_is_found_from_the_length_it_gives(alpha: float, gamma: int) -> None:
    assert prediction.alpha_of(prediction.tau(alpha, gamma), gamma) == pytest.approx(alpha, abs=1e-6)


def test_a_length_that_cannot_be_has_no_alpha() -> None:
    assert prediction.alpha_of(0.9, 3) is None
    assert prediction.alpha_of(4.1, 3) is None
    assert prediction.alpha_of(2.0, 0) is None


@given(GAMMAS, st.floats(0.01, 0.95))
def test_at_the_break_even_acceptance_drafting_changes_nothing(gamma: int, draft_cost: float) -> None:
    alpha = prediction.break_even_alpha(gamma, draft_cost)
    assert alpha is not None
    assert prediction.speedup(alpha, gamma, draft_cost) == pytest.approx(1)


def test_a_draft_as_slow_as_its_target_never_pays() -> None:
    assert prediction.break_even_alpha(3, 1.0) is None
    assert prediction.best_gamma(0.9, 1.5) == (0, 1.0)


@given(ALPHAS, COSTS)
def test_no_number_of_drafted_tokens_beats_the_best_one(alpha: float, draft_cost: float) -> None:
    best, speedup = prediction.best_gamma(alpha, draft_cost)
    assert all(prediction.speedup(alpha, gamma, draft_cost) <= speedup + 1e-12 for gamma in range(1, 65))
    assert best == 0 or prediction.speedup(alpha, best, draft_cost) == pytest.approx(speedup)


@given(st.floats(1, 5), GAMMAS, st.floats(0, 3))
def test_the_cost_of_drafting_is_found_from_the_speedup_it_leaves(length: float, gamma: int, draft_cost: float) -> None:
    speedup = prediction.speedup_of_length(length, gamma, draft_cost)
    assert prediction.implied_draft_cost(speedup, length, gamma) == pytest.approx(draft_cost, abs=1e-9)
