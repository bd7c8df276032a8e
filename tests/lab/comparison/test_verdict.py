"""From runs to a verdict, and of a table of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.comparison import influence
from lab.comparison.compare import Comparison
from lab.comparison.effect import Interval
from lab.comparison.influence import follows
from lab.comparison.samples import Requests, RunSample, pair
from lab.comparison.verdict import Verdict, benjamini_hochberg, holm, two_stages, verdicts
from lab.metrics.definition import Better
from tests.lab.comparison.one_cell import compare
from tests.lab.comparison.simulations.experiments import World, requests


def verdict(comparison: Comparison) -> Verdict:
    """The verdict on a comparison that stands alone."""
    (alone,) = verdicts([comparison])
    return alone


def runs(arm: str, values: Sequence[float | None]) -> list[RunSample]:
    return [RunSample(f"{arm}-{block}", arm, block, value) for block, value in enumerate(values)]


def compared(baseline: Sequence[float | None], candidate: Sequence[float | None], way: Better = "higher") -> Comparison:
    return compare(runs("plain", baseline), runs("draft", candidate), way)


def test_the_interval_over_repeats_is_that_of_the_paired_t_test() -> None:
    baseline, candidate = [100.0, 104.0, 97.0], [150.0, 149.0, 151.0]
    comparison = compared(baseline, candidate)
    expected = stats.ttest_rel(np.log(candidate), np.log(baseline)).confidence_interval(0.95)
    assert comparison.ratio is not None
    assert (comparison.ratio.low, comparison.ratio.high) == pytest.approx(
        (math.exp(expected.low), math.exp(expected.high))
    )
    differing = stats.ttest_rel(candidate, baseline).confidence_interval(0.95)
    assert comparison.difference is not None
    assert (comparison.difference.low, comparison.difference.high) == pytest.approx((differing.low, differing.high))
    assert verdict(comparison).p_differs == pytest.approx(stats.ttest_rel(np.log(candidate), np.log(baseline)).pvalue)


@pytest.mark.parametrize(
    ("candidate", "way", "word"),
    [
        ([150.0, 149.0, 151.0], "higher", "faster"),
        ([150.0, 149.0, 151.0], "lower", "slower"),
        ([60.0, 61.0, 59.0], "higher", "slower"),
        ([60.0, 61.0, 59.0], "lower", "faster"),
        ([100.1, 99.9, 100.0], "higher", "no difference"),
        ([101.0, 101.1, 100.9], "higher", "no difference"),  # sure to be above 1, and within the margin
        ([103.0, 95.0, 108.0], "higher", "inconclusive"),
    ],
)
def test_a_verdict_is_one_of_four_words(candidate: list[float], way: Better, word: str) -> None:
    assert verdict(compared([100.0, 100.0, 100.0], candidate, way)).word == word


def test_one_repeat_alone_is_not_enough_however_great_the_ratio() -> None:
    comparison = compared([100.0], [300.0])
    assert comparison.ratio is not None
    assert comparison.ratio.value == pytest.approx(3.0)
    assert comparison.ratio.low is None
    assert comparison.basis == "1 repeat, which cannot show how much runs differ"
    assert (verdict(comparison).word, verdict(comparison).more_repeats) == ("inconclusive", None)


def test_one_repeat_is_judged_by_the_noise_of_earlier_cells() -> None:
    history = [[100.0, 103.0, 98.0], [50.0, 51.0, 50.5], [10.0, 10.2, 9.9], [7.0, 7.1, 6.8]]
    comparison = compare(runs("plain", [100.0]), runs("draft", [150.0]), "higher", history=history)
    assert comparison.basis == "1 repeat, with the scatter of 4 cells measured before"
    assert verdict(comparison).word == "faster"
    close = compare(runs("plain", [100.0]), runs("draft", [103.0]), "higher", history=history)
    assert verdict(close).word == "inconclusive"


@pytest.mark.parametrize(
    "history", [[[1.0, 1.1], [1.0, 1.2]], [[1.0], [2.0], [3.0]], [[1.0, 1.0, 1.0]] * 5], ids=["few", "single", "same"]
)
def test_too_little_history_gives_no_interval(history: list[list[float]]) -> None:
    comparison = compare(runs("plain", [100.0]), runs("draft", [150.0]), "higher", history=history)
    assert comparison.ratio is not None
    assert comparison.ratio.low is None


def test_so_many_more_repeats_decide_if_nothing_changes() -> None:
    comparison = compared([100.0, 100.0, 100.0], [103.0, 95.0, 108.0])
    more = verdict(comparison).more_repeats
    assert more is not None
    assert comparison.effect is not None
    logs = np.log([1.03, 0.95, 1.08])
    for count, decided in ((3 + more - 1, False), (3 + more, True)):
        half = stats.t.ppf(0.975, count - 1) * logs.std(ddof=1) / math.sqrt(count)
        assert bool(half < abs(logs.mean()) or abs(logs.mean()) + half < math.log(1.02)) is decided


def test_swapping_the_arms_turns_the_verdict_round() -> None:
    plain, drafted = [100.0, 104.0, 97.0], [130.0, 131.0, 127.0]
    assert (verdict(compared(plain, drafted)).word, verdict(compared(drafted, plain)).word) == ("faster", "slower")
    ratio, inverse = compared(plain, drafted).ratio, compared(drafted, plain).ratio
    assert ratio is not None
    assert inverse is not None
    assert inverse.low is not None
    assert ratio.high == pytest.approx(1 / inverse.low)


def test_only_blocks_with_both_arms_count() -> None:
    pairs = pair(runs("plain", [1.0, None, 3.0, 4.0]), runs("draft", [2.0, 3.0, None, 5.0]))
    assert pairs.blocks == ((0,), (3,))
    assert compared([None], [1.0]).basis == "no repeat has both arms"
    assert verdict(compared([], [])).word == "inconclusive"


def test_two_runs_of_an_arm_in_one_block_are_refused() -> None:
    twice = [*runs("plain", [1.0]), *runs("plain", [2.0])]
    with pytest.raises(ValueError, match="two runs"):
        pair(twice, runs("draft", [1.0]))


def test_a_number_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        compared([math.nan], [1.0])
    holed = [RunSample("r", "plain", 0, 1.0, Requests(("a", "b"), np.array([1.0, math.nan])))]
    with pytest.raises(ValueError, match="finite"):
        pair(holed, holed)


@pytest.mark.parametrize(
    ("metric", "closed_loop", "column"),
    [
        ("ttft_p50_ms", True, "ttft_ms"),
        ("tpot_mean_ms", False, "tpot_ms"),
        ("e2e_p99_ms", False, "e2e_ms"),
        ("output_tok_per_s", True, "e2e_ms"),
        ("output_tok_per_s", False, None),
        ("cost_per_million_output_tokens", True, "e2e_ms"),
        ("itl_p95_ms", True, None),
        ("acceptance_rate", True, None),
    ],
)
def test_a_metric_says_which_numbers_of_requests_it_follows(metric: str, closed_loop: bool, column: str | None) -> None:  # noqa: FBT001
    follow = follows(metric, closed_loop=closed_loop)
    assert (None if follow is None else follow.column) == column


def test_a_median_is_followed_by_the_influence_of_a_median() -> None:
    requests_ms = np.array([[float(place)] for place in range(1, 12)])
    follow = follows("e2e_p50_ms", closed_loop=True)
    assert follow is not None
    assert follow.influence(requests_ms)[0].item() == 6.0


def test_a_zero_has_a_difference_and_no_ratio() -> None:
    comparison = compared([0.0, 0.0], [0.5, 0.4])
    assert comparison.ratio is None
    assert comparison.difference is not None
    assert comparison.difference.value == pytest.approx(0.45)
    assert verdict(comparison).word == "inconclusive"


def test_equal_numbers_in_every_repeat_are_no_difference() -> None:
    assert verdict(compared([0.7, 0.7], [0.7, 0.7])).word == "no difference"
    assert verdict(compared([0.7, 0.7], [0.9, 0.9])).word == "faster"


def test_requests_are_paired_by_prompt_and_widen_the_interval_where_prompts_differ() -> None:
    world = World(run=0.001, block=0.0, prompt_by_arm=0.5, request=0.05)
    base, tried = requests(np.random.default_rng(1), world, (1, 40, 3), log_ratio=-0.3)
    comparison = compare(sampled("plain", base[0]), sampled("draft", tried[0]), "lower")
    blind = compare(runs("plain", base[0].mean(axis=0)), runs("draft", tried[0].mean(axis=0)), "lower")
    assert comparison.ratio is not None
    assert blind.ratio is not None
    assert comparison.ratio.value == pytest.approx(blind.ratio.value)
    assert (comparison.prompts, comparison.basis) == (40, "3 repeats and 40 prompts")
    assert comparison.ratio.low < blind.ratio.low < blind.ratio.high < comparison.ratio.high  # type: ignore[operator]  # none is None
    assert blind.prompts is None


def sampled(arm: str, values: np.ndarray) -> list[RunSample]:
    """Runs of requests (prompts, blocks), sent in an order of their own in each block."""
    order = np.random.default_rng(2).permutation(len(values))
    return [
        RunSample(
            f"{arm}-{block}", arm, block, float(column.mean()), Requests(tuple(f"p{n}" for n in order), column[order])
        )
        for block, column in enumerate(values.T)
    ]


@pytest.mark.parametrize("repeats", [1, 3])
def test_identical_arms_are_called_at_most_five_times_in_a_hundred(repeats: int) -> None:
    """The whole way from runs and requests to the word, with a history of twenty earlier cells."""
    experiments, world, rng = 200, World(prompt_by_arm=0.0), np.random.default_rng(repeats)
    base, tried = requests(rng, world, (experiments, 30, repeats))
    earlier, _ = requests(rng, world, (20, 30, 3))
    history = earlier.mean(axis=1).tolist()
    words = [
        verdict(compare(sampled("plain", baseline), sampled("draft", candidate), "lower", history=history)).word
        for baseline, candidate in zip(base, tried, strict=True)
    ]
    assert np.mean([word in {"faster", "slower"} for word in words]) <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / experiments)


def test_more_repeats_do_not_decide_what_only_more_prompts_would() -> None:
    world = World(run=0.001, block=0.0, prompt_by_arm=1.0, request=0.05)
    base, tried = requests(np.random.default_rng(4), world, (1, 10, 3))
    comparison = compare(sampled("plain", base[0]), sampled("draft", tried[0]), "lower")
    assert (verdict(comparison).word, verdict(comparison).more_repeats) == ("inconclusive", None)


def test_holm_is_the_step_down_rule() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_the_usual_reading_is_benjamini_and_hochbergs_step_up_rule() -> None:
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert benjamini_hochberg([]) == []


def test_a_second_stage_corrects_for_what_the_first_left_open() -> None:
    """Three of six are called at once; the fourth then stands among three."""
    p_values = [0.001, 0.001, 0.001, 0.035, 0.5, 0.6]
    assert benjamini_hochberg(p_values)[3] == pytest.approx(0.0525)
    assert two_stages(p_values, 0.05) == pytest.approx([0.00105, 0.00105, 0.00105, 0.035, 0.5, 0.6])
    nothing_called = [0.02, 0.03, 0.2, 0.5]
    assert two_stages(nothing_called, 0.05) == benjamini_hochberg(nothing_called)
    assert two_stages([], 0.05) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_two_stages_keep_the_order_and_lie_below_one_stage(p_values: list[float]) -> None:
    adjusted = two_stages(p_values, 0.05)
    once = benjamini_hochberg(p_values)
    assert all(p <= twice <= one for p, twice, one in zip(p_values, adjusted, once, strict=True))
    assert [adjusted[place] for place in np.argsort(p_values, kind="stable")] == sorted(adjusted)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_keeps_the_order_and_lies_between_the_p_value_and_bonferronis(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    assert all(p <= q <= min(len(p_values) * p, 1) + 1e-12 for p, q in zip(p_values, adjusted, strict=True))
    assert [adjusted[place] for place in np.argsort(p_values, kind="stable")] == sorted(adjusted)


def test_a_cell_that_cannot_be_judged_costs_the_others_nothing() -> None:
    clear, alone = compared([100.0, 101.0, 99.0], [150.0, 149.0, 151.0]), compared([100.0], [150.0])
    assert verdicts([clear, alone])[0].p_differs == verdict(clear).p_differs


def test_the_influence_of_a_percentile_averages_out_and_gives_its_variance() -> None:
    rng = np.random.default_rng(8)
    samples = rng.normal(100.0, 10.0, size=(4000, 200, 1))
    for of in (influence.mean, influence.percentile(0.5), influence.percentile(0.9)):
        value, moved = of(samples)
        predicted = float(np.mean(moved.var(axis=1, ddof=1)) / 200)
        assert 0.95 <= predicted / float(value.var()) <= 1.3  # of a tail it is wide rather than narrow


def started(arm: str, values: list[float], launches: list[int]) -> list[RunSample]:
    return [replace(run, launch=launch) for run, launch in zip(runs(arm, values), launches, strict=True)]


def test_repeats_on_one_engine_start_are_one_observation_of_it() -> None:
    """They say how runs differ, and nothing of how starts do."""
    plain, draft = [100.0, 102.0, 98.0, 100.0], [130.0, 131.0, 129.0, 130.0]
    once = compare(started("plain", plain, [0] * 4), started("draft", draft, [1] * 4), "higher")
    assert (once.blocks, once.ratio) == (1, Interval(1.3, None, None))
    assert once.basis == "4 repeats on 1 engine start, which cannot show how much starts differ"
    twice = compare(started("plain", plain, [0, 0, 3, 3]), started("draft", draft, [1, 1, 2, 2]), "higher")
    means = compare(runs("plain", [101.0, 99.0]), runs("draft", [130.5, 129.5]), "higher")
    assert (twice.ratio, twice.basis) == (means.ratio, "4 repeats on 2 engine starts")
    comparison = compare(started("plain", plain, [0, 3, 4, 7]), started("draft", draft, [1, 2, 5, 6]), "higher")
    assert comparison == compare(runs("plain", plain), runs("draft", draft), "higher")


def test_one_start_of_either_arm_ties_its_repeats_together() -> None:
    plain, draft = [100.0, 102.0, 98.0], [130.0, 131.0, 129.0]
    assert compare(started("plain", plain, [0] * 3), started("draft", draft, [1, 2, 3]), "higher").blocks == 1


def test_more_repeats_count_those_that_share_an_engine_start() -> None:
    """A block of two repeats on one start is decided by blocks of two: what takes n starts takes 2 n repeats."""
    plain, draft = [100.0, 104.0, 97.0, 101.0], [103.0, 102.0, 104.0, 110.0]
    alone = verdict(compare(runs("plain", plain), runs("draft", draft), "higher"))
    twice = [[value for value in values for _ in range(2)] for values in (plain, draft)]
    launches = [0, 0, 1, 1, 2, 2, 3, 3]
    shared = verdict(compare(started("plain", twice[0], launches), started("draft", twice[1], launches), "higher"))
    assert alone.word == "inconclusive"
    assert alone.more_repeats
    assert shared.more_repeats == 2 * alone.more_repeats
