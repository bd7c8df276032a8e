"""What is computed for a whole table at once is what each of its pairs would have alone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lab.comparison import influence, spread
from lab.comparison.effect import request_variance
from lab.comparison.samples import Array, Requests, RunSample, pair
from lab.comparison.spread import Spread
from tests.lab.comparison.one_cell import compare


def test_the_interval_at_a_p_value_just_reaches_the_distance() -> None:
    rng = np.random.default_rng(1)
    variances = rng.random((20, 2)) * 1e-4
    around = [Spread(np.array(blocks), 4, np.array(prompts), 1999) for blocks, prompts in variances]
    distances = rng.random(20) * 0.05
    p_values_of = spread.p_values(distances, spread.together(around))
    reached = [spread.half_width(distribution, 1 - p) for distribution, p in zip(around, p_values_of, strict=True)]
    assert np.ravel(reached) == pytest.approx(distances, rel=1e-6)


@pytest.mark.parametrize(
    ("distance", "around", "expected"),
    [
        (0.1, Spread(np.array(0.01), 4, np.array(0.0), math.inf), 2 * stats.t.sf(1, 4)),  # of blocks alone
        (0.1, Spread(np.array(0.0), 4, np.array(0.01), 99), 2 * stats.t.sf(1, 99)),  # of prompts alone
        (0.1, Spread(np.array(0.01), math.inf, np.array(0.0), math.inf), 2 * stats.norm.sf(1)),  # noise that is known
        (0.0, Spread(np.array(0.01), 4, np.array(0.01), 99), 1),  # no distance
        (0.1, Spread(np.array(0.0), 4, np.array(0.0), 99), 0),  # no scatter
        (9.9, Spread(np.array(1e-6), 4, np.array(1e-6), 99), spread.LEAST_P),
    ],
)
def test_a_p_value_at_the_edges(distance: float, around: Spread, expected: float) -> None:
    assert spread.p_values(np.array([distance]), spread.together([around])) == pytest.approx(expected, rel=1e-9)


def test_what_requests_add_to_a_block_leaves_out_what_a_prompt_repeats() -> None:
    """Three prompts in two blocks; each has its own effect, and one block's shares differ by 0.2 and -0.2 of it."""
    base = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    tried = base + np.array([[0.2, -0.2], [0.0, 0.0], [-0.2, 0.2]])
    prompts = ("a", "b", "c")

    def runs(arm: str, numbers: Array) -> list[RunSample]:
        return [RunSample(f"{arm}{block}", arm, block, 1.0, Requests(prompts, numbers[:, block])) for block in range(2)]

    pairs = pair(runs("plain", base), runs("draft", tried))
    assert request_variance(pairs, influence.mean) == pytest.approx(2 / 3 * 2 * 0.1**2)
    assert request_variance(pair(runs("plain", base)[:1], runs("draft", tried)[:1])) is None


def test_prompts_scatter_by_what_exceeds_the_residual_of_their_mean_square() -> None:
    """Three prompts in two blocks; mean squares by hand: 2 (1 + 0 + 1) / 2 of prompts, 0.04 / (2 * 1) of the rest."""
    influences = np.array([[1.1, 0.9], [0.0, 0.0], [-1.1, -0.9]])
    crossed = spread.over_blocks_and_prompts(np.array([0.1, 0.3]), influences)
    assert crossed.rest == pytest.approx((2.0 - 0.02) / 6)
    assert crossed.rest_df == 2


def test_repeats_that_agree_too_closely_still_have_an_interval() -> None:
    """Three searches that end at the same numbers, each known to 5 %: two degrees of freedom."""

    def runs(arm: str, values: list[float], known: float) -> list[RunSample]:
        return [RunSample(f"{arm}{n}", arm, n, value, log_variance=known**2) for n, value in enumerate(values)]

    same = compare(runs("plain", [8.0] * 3, 0.05), runs("draft", [16.0] * 3, 0.05), "higher")
    half = stats.t.ppf(0.975, 2) * math.sqrt(2 * 0.05**2 / 3)
    assert same.ratio is not None
    assert (same.ratio.low, same.ratio.high) == pytest.approx((2 * math.exp(-half), 2 * math.exp(half)))
    assert same.difference is not None
    assert same.difference.high is not None
    error = math.sqrt((0.05**2 * 8**2 + 0.05**2 * 16**2) / 3)
    assert same.difference.high - 8 == pytest.approx(stats.t.ppf(0.975, 2) * error)
    apart = [14.0, 16.0, 19.0]
    known, unknown = (compare(runs("plain", [8.0] * 3, of), runs("draft", apart, of), "higher") for of in (0.01, 0.0))
    assert known.ratio == unknown.ratio
