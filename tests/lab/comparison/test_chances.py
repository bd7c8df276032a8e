"""How likely more blocks show an effect: against simulated blocks, and at the ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from lab.comparison import looks
from lab.comparison.effect import Effect
from lab.comparison.looks import chances, likely
from lab.comparison.spread import Spread

LEVEL, NOISE, LIKE = 0.02, 0.03, 12


def effect(value: float, blocks: int, noise: float = NOISE, prompts: float = 0.0) -> Effect:
    """The variance of a block is known well."""
    return Effect(value, Spread(np.array(noise**2 / blocks), 1e6, np.array(prompts), 1e6))


@pytest.mark.parametrize(("value", "noise"), [(0.03, NOISE), (-0.06, NOISE), (0.005, 0.008)])
def test_so_often_simulated_blocks_show_it(value: float, noise: float) -> None:
    rng, blocks, draws = np.random.default_rng(1), 3, 40_000
    truth = value + noise / math.sqrt(blocks) * rng.standard_normal(draws)
    expected = chances(effect(value, blocks, noise), blocks, LEVEL, LIKE)
    for more in (1, 3, 6):
        added = more * truth + noise * math.sqrt(more) * rng.standard_normal(draws)
        mean, count = (blocks * value + added) / (blocks + more), blocks + more
        half = -float(special.ndtri(looks.unpaid(LEVEL, np.array([count]), LIKE)[0] / 2)) * noise / math.sqrt(count)
        assert expected[more - 1] == pytest.approx((np.abs(mean) > half).mean(), abs=0.01)


def test_large_effects_are_nearly_certain_and_those_of_more_prompts_hopeless() -> None:
    assert chances(effect(0.5, 3), 3, LEVEL, LIKE)[0] > 0.999
    assert chances(effect(0.03, 3, noise=0.001, prompts=0.05**2), 3, LEVEL, LIKE).max() < 0.001


def test_nothing_is_expected_of_a_comparison_whose_scatter_is_unknown() -> None:
    assert not np.any(chances(Effect(0.5, None), 1, LEVEL, LIKE))


def test_an_effect_is_likely_by_its_distance_from_0_in_scatters() -> None:
    """A spike and a slab: odds of the two densities at what was measured."""
    slab, known = 0.2**2 + 0.02**2, 0.02**2
    odds = math.exp(-(0.03**2) / (2 * slab)) / math.sqrt(slab) / (math.exp(-(0.03**2) / (2 * known)) / math.sqrt(known))
    assert likely(effect(0.03, 4, noise=0.04)) == pytest.approx(odds / (1 + odds))
    assert likely(effect(0.0, 4, noise=0.04)) < 0.1
    assert likely(effect(-0.2, 4, noise=0.04)) > 0.999
    assert likely(Effect(0.5, None)) == likely(effect(0.0, 4, noise=0.0)) == 1
