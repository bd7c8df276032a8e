"""How likely more blocks decide a comparison: against simulated blocks, and at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from lab.comparison import looks
from lab.comparison.chances import chances
from lab.comparison.effect import Effect
from lab.comparison.spread import Spread

BOUND, LEVEL, NOISE = math.log(1.02), 0.02, 0.03


def effect(value: float, blocks: int, noise: float = NOISE, prompts: float = 0.0) -> Effect:
    """The variance of a block is known well."""
    return Effect(value, Spread(np.array(noise**2 / blocks), 1e6, np.array(prompts), 1e6))


@pytest.mark.parametrize(("value", "noise"), [(0.03, NOISE), (-0.06, NOISE), (0.005, 0.008)])
def test_so_often_simulated_blocks_decide_it(value: float, noise: float) -> None:
    rng, blocks, draws = np.random.default_rng(1), 3, 40_000
    truth = value + noise / math.sqrt(blocks) * rng.standard_normal(draws)
    expected = chances(effect(value, blocks, noise), blocks, BOUND, LEVEL, 6)
    for more in (1, 3, 6):
        added = more * truth + noise * math.sqrt(more) * rng.standard_normal(draws)
        mean, count = (blocks * value + added) / (blocks + more), blocks + more
        half = -float(special.ndtri(looks.unpaid(LEVEL, np.array([count]))[0] / 2)) * noise / math.sqrt(count)
        decided = (np.abs(mean) > half) | (np.abs(mean) + half <= BOUND)
        assert expected[more - 1] == pytest.approx(decided.mean(), abs=0.01)


def test_a_large_effect_is_nearly_certain_and_one_that_only_more_prompts_would_show_is_not_waited_for() -> None:
    assert chances(effect(0.5, 3), 3, BOUND, LEVEL, 1)[0] > 0.999
    assert chances(effect(0.03, 3, noise=0.001, prompts=0.05**2), 3, BOUND, LEVEL, 9).max() < 0.001


def test_nothing_is_expected_of_a_comparison_whose_scatter_is_unknown() -> None:
    assert chances(Effect(0.5, None), 1, BOUND, LEVEL, 3).tolist() == [0.0, 0.0, 0.0]
