"""By simulation: the 95 % interval holds the truth 95 times in 100, and identical arms are not told apart."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lab.comparison import influence, spread
from lab.comparison.influence import Influence
from lab.comparison.moderation import moderated
from lab.comparison.spread import Spread
from tests.lab.comparison.simulations.experiments import Array, World, requests

_EXPERIMENTS = 1500
#: What a share of 95 % may be off by chance alone in that many: three standard deviations of the binomial.
_LUCK = 3 * math.sqrt(0.95 * 0.05 / _EXPERIMENTS)
_WORLDS = {
    "usual": World(),
    "runs differ much": World(run=0.1),
    "requests depend on the one before": World(neighbours=0.7, request=0.3),
    "requests differ more than runs": World(run=0.005, request=0.3, neighbours=0.0),
    "the gain depends on the prompt": World(prompt_by_arm=0.12),
}


def measured(base: Array, tried: Array, of: Influence) -> tuple[Array, Array]:
    """The log ratios, of shape (experiments, blocks), and the influences of the requests on them."""
    (ours, by_ours), (theirs, by_theirs) = of(base), of(tried)
    return np.log(theirs / ours)[..., 0, :], by_theirs / theirs - by_ours / ours


def held(effects: Array, around: Spread, truth: float) -> float:
    """Share of the experiments whose interval holds the truth."""
    return float((np.abs(effects.mean(axis=-1) - truth) <= spread.half_width(around, 0.95)).mean())


@pytest.mark.parametrize("blocks", [2, 3, 5])
@pytest.mark.parametrize("name", _WORLDS)
def test_the_interval_of_a_mean_covers_as_often_as_it_says(name: str, blocks: int) -> None:
    world = _WORLDS[name]
    base, tried = requests(np.random.default_rng(blocks), world, (_EXPERIMENTS, 48, blocks), log_ratio=0.3)
    effects, moved = measured(base, tried, influence.mean)
    truth = 0.3 + world.prompt_by_arm**2 / 2  # of the means of two log-normal numbers
    assert abs(held(effects, spread.over_blocks_and_prompts(effects, moved), truth) - 0.95) <= _LUCK


@pytest.mark.parametrize("blocks", [2, 3, 5])
@pytest.mark.parametrize("name", _WORLDS)
def test_identical_arms_differ_falsely_at_most_five_times_in_a_hundred(name: str, blocks: int) -> None:
    same = replace(_WORLDS[name], prompt_by_arm=0.0)
    base, tried = requests(np.random.default_rng(100 + blocks), same, (_EXPERIMENTS, 48, blocks))
    effects, moved = measured(base, tried, influence.mean)
    for around in (spread.over_blocks(effects), spread.over_blocks_and_prompts(effects, moved)):
        assert 1 - held(effects, around, 0.0) <= 0.05 + _LUCK


@pytest.mark.parametrize("blocks", [2, 3, 5])
@pytest.mark.parametrize("name", _WORLDS)
def test_the_interval_of_a_median_covers_as_often_as_it_says(name: str, blocks: int) -> None:
    base, tried = requests(np.random.default_rng(blocks), _WORLDS[name], (_EXPERIMENTS, 48, blocks), log_ratio=0.3)
    effects, moved = measured(base, tried, influence.percentile(0.5))
    assert 0.95 - _LUCK <= held(effects, spread.over_blocks_and_prompts(effects, moved), 0.3) <= 0.97


@pytest.mark.parametrize("q", [0.9, 0.95])
def test_the_interval_of_a_tail_is_wide_rather_than_narrow(q: float) -> None:
    base, tried = requests(np.random.default_rng(9), World(prompt_by_arm=0.0), (_EXPERIMENTS, 96, 3))
    effects, moved = measured(base, tried, influence.percentile(q))
    assert held(effects, spread.over_blocks_and_prompts(effects, moved), 0.0) >= 0.95


def test_one_repeat_with_earlier_noise_covers_as_often_as_it_says() -> None:
    """The truth is that both arms are the same, so what it does not hold is called faster or slower falsely.

    Cells differ in how noisy they are, by a factor of about 1.35; the history does not have the one compared.
    """
    rng = np.random.default_rng(1)
    hits = []
    for _ in range(_EXPERIMENTS):
        sds = 0.03 * np.exp(0.3 * rng.standard_normal(13))
        (scatter,) = moderated([0.0], [0.0], [1], np.exp(sds[:12, None] * rng.standard_normal((12, 3))).tolist())
        assert scatter is not None
        effect = np.array([sds[12] * (rng.standard_normal() - rng.standard_normal())])
        hits.append(held(effect, spread.of_one_block(scatter.variance, scatter.df, None), 0.0))
    assert 0.95 - _LUCK <= np.mean(hits) <= 0.97 + _LUCK  # rather too wide: a history counts for few cells


@pytest.mark.parametrize("neighbours", [0.0, 0.5])
def test_one_repeat_of_correlated_requests_covers_as_often_as_it_says(neighbours: float) -> None:
    world = World(neighbours=neighbours, prompt_by_arm=0.1)
    base, tried = requests(np.random.default_rng(2), world, (_EXPERIMENTS, 100, 1), log_ratio=0.3)
    effects, moved = measured(base, tried, influence.mean)
    within = spread.of_one_block(2 * world.run**2, math.inf, moved[..., 0])
    assert abs(held(effects, within, 0.3 + world.prompt_by_arm**2 / 2) - 0.95) <= _LUCK


def test_requests_of_one_repeat_alone_would_call_identical_arms_different() -> None:
    """Why one repeat needs the noise of runs: a bootstrap of its requests cannot see it."""
    base, tried = requests(np.random.default_rng(3), World(prompt_by_arm=0.0), (500, 400, 1))
    effects, moved = measured(base, tried, influence.mean)
    blind = spread.of_one_block(0.0, math.inf, moved[..., 0])
    assert 1 - held(effects, blind, 0.0) > 0.3
