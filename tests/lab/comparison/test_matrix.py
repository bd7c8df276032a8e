"""Acceptance length by kind of text: its interval holds the truth as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from lab.comparison.acceptance import length_over_prompts
from lab.comparison.effect import Interval


def test_prompts_weigh_by_their_rounds() -> None:
    found = length_over_prompts([10, 30], [20, 30])
    assert found is not None
    assert found.value == 2.25
    assert found.low == 1.0  # no length is smaller
    assert found.high == pytest.approx(2.25 + 12.706 * (2 * (7.5**2 * 2)) ** 0.5 / 40, rel=1e-3)


def test_a_single_prompt_has_no_interval_and_no_round_no_length() -> None:
    assert length_over_prompts([4], [6]) == Interval(2.5, None, None)
    assert length_over_prompts([0], [0]) is None
    assert length_over_prompts([], []) is None


def test_the_interval_holds_the_true_length_in_19_of_20_samples() -> None:
    """Prompts differ in how predictable they are and in their length, as texts do."""
    rng = np.random.default_rng(7)
    held = 0
    for _ in range(400):
        rounds = rng.integers(10, 60, 30)
        accepted = rng.binomial(3 * rounds, rng.beta(4, 4, 30))
        found = length_over_prompts(rounds.tolist(), accepted.tolist())
        assert found is not None
        held += (found.low or 0) <= 2.5 <= (found.high or 9)
    assert 0.92 <= held / 400 <= 0.98
