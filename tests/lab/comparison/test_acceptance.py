"""Acceptance: pooled, per position, with fewer tokens, against latency, and over time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.comparison.acceptance import (
    FALSE_ALARMS,
    Acceptance,
    Counts,
    Moment,
    against_latency,
    by_category,
    conditional,
    drift,
    pooled,
    prediction_limits,
    with_fewer_tokens,
)


@st.composite
def runs(draw: st.DrawFn) -> Counts:
    """A run of 3 drafted tokens whose counts and positions follow from each other."""
    drafts = draw(st.integers(1, 1000))
    accepted = sorted((draw(st.integers(0, drafts)) for _ in range(3)), reverse=True)
    return Counts(drafts, 3 * drafts, sum(accepted), tuple(count / drafts for count in accepted))


@given(st.lists(runs(), min_size=1, max_size=6))
def test_pooled_length_is_1_and_the_sum_of_the_pooled_positions(several: list[Counts]) -> None:
    acceptance = pooled(several)
    assert acceptance.per_position is not None
    assert acceptance.length == pytest.approx(1 + sum(acceptance.per_position))
    assert acceptance.rate == pytest.approx(sum(acceptance.per_position) / 3)


@given(runs())
def test_conditional_rates_multiply_to_the_unconditional_ones(run: Counts) -> None:
    assert run.per_position is not None
    product = 1.0
    for rate, given_before in zip(run.per_position, conditional(run.per_position), strict=True):
        product *= 0.0 if given_before is None else given_before
        assert product == pytest.approx(rate)


def test_runs_weigh_by_their_drafts() -> None:
    acceptance = pooled([Counts(300, 300, 300, (1.0,)), Counts(100, 100, 0, (0.0,))])
    assert (acceptance.rate, acceptance.length, acceptance.per_position) == (0.75, 1.75, (0.75,))


def test_runs_of_different_k_have_no_positions_in_common() -> None:
    acceptance = pooled([Counts(10, 20, 10, (0.7, 0.3)), Counts(10, 10, 7, (0.7,))])
    assert (acceptance.per_position, acceptance.conditional, acceptance.rate) == (None, None, 17 / 30)


def test_nothing_drafted_is_unknown() -> None:
    assert pooled([]) == Acceptance(0, None, None, None, None)
    assert pooled([Counts(0, 0, 0)]) == Acceptance(0, None, None, None, None)


def test_a_position_that_was_never_reached_has_no_conditional_rate() -> None:
    assert conditional([0.5, 0.0, 0.0]) == (0.5, 0.0, None)


def test_fewer_tokens_keep_the_first_positions_and_are_an_estimate() -> None:
    measured = pooled([Counts(100, 300, 130, (0.7, 0.4, 0.2))])
    fewer = with_fewer_tokens(measured, 2)
    assert fewer is not None
    assert fewer.length == pytest.approx(2.1)
    assert fewer.rate == pytest.approx(0.55)
    assert fewer.is_estimate
    same = with_fewer_tokens(measured, 3)
    assert same is not None
    assert same.length == pytest.approx(measured.length)
    assert not same.is_estimate
    assert with_fewer_tokens(measured, 4) is None
    assert with_fewer_tokens(pooled([Counts(10, 30, 5)]), 1) is None


def test_each_kind_of_text_has_its_own_acceptance() -> None:
    categories = by_category([("code", Counts(10, 20, 18)), ("prose", Counts(10, 20, 6)), (None, Counts(10, 20, 0))])
    assert {name: kind.rate for name, kind in categories.items()} == {"code": 0.9, "prose": 0.3}


def test_requests_that_accept_more_are_answered_sooner() -> None:
    rng = np.random.default_rng(1)
    accepted = rng.uniform(0, 1, 200)
    latency = 100 - 50 * accepted + rng.normal(0, 5, 200)
    correlation = against_latency(accepted.tolist(), latency.tolist())
    assert correlation is not None
    assert correlation.rho.value == pytest.approx(stats.spearmanr(accepted, latency).statistic)
    assert correlation.rho.value < -0.9
    assert correlation.rho.low is not None
    assert correlation.rho.low < correlation.rho.value


def test_too_few_requests_or_equal_ones_have_no_correlation() -> None:
    assert against_latency([0.1] * 9, [1.0] * 9) is None
    assert against_latency([0.5] * 20, list(range(20))) is None
    whole = against_latency(list(range(20)), list(range(20)))
    assert whole is not None
    assert (whole.rho.low, whole.rho.high) == (whole.rho.value, whole.rho.value)


def test_the_interval_of_a_correlation_is_that_of_a_published_example() -> None:
    """That of `ci.spear` in statpsych, the R package of D. G. Bonett."""
    y = [21, 4, 9, 12, 35, 18, 10, 22, 24, 1, 6, 8, 13, 16, 19]
    x = [67, 28, 30, 28, 52, 40, 25, 37, 44, 10, 14, 20, 28, 40, 51]
    correlation = against_latency(y, x)
    assert correlation is not None
    assert (correlation.rho.value, correlation.rho.low, correlation.rho.high) == pytest.approx(
        (0.8699639, 0.5840951, 0.9638297)
    )


def test_the_interval_of_the_correlation_holds_none_where_there_is_none() -> None:
    rng = np.random.default_rng(2)
    correlations = [against_latency(*rng.standard_normal((2, 30)).tolist()) for _ in range(800)]
    held = [
        correlation is not None and (correlation.rho.low or 0) <= 0 <= (correlation.rho.high or 0)
        for correlation in correlations
    ]
    assert 0.93 <= np.mean(held) <= 0.97


def drift_of(*values: float) -> tuple[Moment, ...]:
    return drift([(str(place), value) for place, value in enumerate(values)])


def states(*values: float) -> list[str]:
    return [moment.state for moment in drift_of(*values)]


def test_a_fall_beyond_the_scatter_begins_a_new_history() -> None:
    level = [2.50, 2.52, 2.48, 2.51, 2.49]
    assert states(*level, 2.0, 2.02, 1.99, 2.01) == ["too little history"] * 3 + ["steady"] * 2 + ["changed"] + [
        "too little history"
    ] * 2 + ["steady"]


def test_a_change_that_is_sure_but_tiny_is_none() -> None:
    assert states(2.5, 2.5, 2.5, 2.5, 2.51)[-1] == "steady"
    assert states(2.5, 2.5, 2.5, 2.5, 2.6)[-1] == "changed"


def test_a_noisy_history_is_not_easily_left() -> None:
    assert states(2.5, 2.9, 2.1, 2.7, 2.0)[-1] == "steady"


@pytest.mark.parametrize("count", [3, 5, 20])
def test_limits_cry_wolf_as_seldom_as_they_say(count: int) -> None:
    rng = np.random.default_rng(count)
    outside = 0
    for values in rng.normal(2.5, 0.1, size=(4000, count + 1)):
        low, high = prediction_limits(values[:-1].tolist())
        outside += not low <= values[-1] <= high
    assert outside / 4000 <= FALSE_ALARMS + 3 * np.sqrt(FALSE_ALARMS / 4000)


def test_each_run_is_shown_with_the_limits_that_it_was_judged_by() -> None:
    values = [2.5, 2.52, 2.48, 2.51, 2.0, 2.01]
    shown = [
        (moment.run_id, moment.value, moment.state, moment.expected, moment.low, moment.high)
        for moment in drift_of(*values)
    ]
    assert shown == [
        ("0", 2.5, "too little history", None, None, None),
        ("1", 2.52, "too little history", None, None, None),
        ("2", 2.48, "too little history", None, None, None),
        ("3", 2.51, "steady", 2.5, pytest.approx(2.0564392424), pytest.approx(2.9435607576)),
        ("4", 2.0, "changed", 2.5025, pytest.approx(2.326472948), pytest.approx(2.678527052)),
        ("5", 2.01, "too little history", None, None, None),
    ]
