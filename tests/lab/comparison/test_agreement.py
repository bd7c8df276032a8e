"""Whether two arms wrote the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.comparison.agreement import Output, agreement, first_difference, share


def test_each_prompt_is_compared_with_itself() -> None:
    baseline = {"a": Output("one two"), "b": Output("one two"), "c": Output("only here")}
    compared = agreement(baseline, {"b": Output("one too"), "a": Output("one two"), "d": Output("only there")})
    assert [(pair.prompt_id, pair.same, pair.first_differing_character) for pair in compared.pairs] == [
        ("a", True, None),
        ("b", False, 5),
    ]
    assert (compared.same, compared.unpaired) == (1, 2)
    assert compared.same_share is not None
    assert compared.same_share.value == 0.5


def test_tokens_tell_what_texts_hide() -> None:
    baseline, candidate = {"a": Output("ab", (1, 2))}, {"a": Output("ab", (3,))}
    pair = agreement(baseline, candidate).pairs[0]
    assert (pair.same, pair.first_differing_character, pair.first_differing_token) == (False, None, 0)
    assert agreement(baseline, {"a": Output("ax")}).pairs[0].first_differing_token is None


def test_the_median_is_exact_only_where_every_place_is() -> None:
    baseline = {"a": Output("ab", (1, 2), 2), "b": Output("ab", None, 2), "c": Output("ab", (1, 2), 2)}
    candidate = {"a": Output("ax", (1, 3), 2), "b": Output("ax", None, 2), "c": Output("ab", (1, 2), 2)}
    compared = agreement(baseline, candidate)
    assert (compared.same, compared.median_first_differing_token) == (1, None)
    assert compared.median_estimated_first_differing_token == 1
    alone = {prompt: output for prompt, output in candidate.items() if prompt != "b"}
    assert agreement(baseline, alone).median_first_differing_token == 1


def test_where_tokens_are_only_counted_the_first_that_differs_is_estimated() -> None:
    compared = agreement({"a": Output("0123456789", token_count=5)}, {"a": Output("01234567x9", token_count=5)})
    assert (
        compared.pairs[0].first_differing_token,
        compared.pairs[0].estimated_first_differing_token,
    ) == (None, 4)
    assert (
        compared.median_first_differing_token,
        compared.median_estimated_first_differing_token,
    ) == (None, 4.0)
    uncounted = agreement({"a": Output("ab", token_count=2), "b": Output("ab")}, {"a": Output("xb"), "b": Output("ax")})
    assert uncounted.median_estimated_first_differing_token is None
    nothing = agreement({"a": Output("", token_count=0)}, {"a": Output("ab", token_count=2)}).pairs[0]
    assert nothing.estimated_first_differing_token == 0
    exact = agreement({"a": Output("ab", (1, 2), 2)}, {"a": Output("ax", (1, 3), 2)}).pairs[0]
    assert (exact.first_differing_token, exact.estimated_first_differing_token) == (1, 1)


def test_sampled_outputs_are_not_paired_and_still_have_their_loops_counted() -> None:
    loops = {"a": Output("to_" * 60)}
    compared = agreement(loops, {"a": Output("different")}, greedy=False)
    assert (compared.pairs, compared.same_share, compared.baseline_degenerate_share) == (
        (),
        None,
        1.0,
    )


@given(st.lists(st.integers(0, 2), max_size=8), st.lists(st.integers(0, 2), max_size=8))
def test_everything_before_the_first_difference_is_the_same(left: list[int], right: list[int]) -> None:
    place = first_difference(left, right)
    if place is None:
        assert left == right
    else:
        assert left[:place] == right[:place]
        assert left[place : place + 1] != right[place : place + 1]
    assert place == first_difference(right, left)


def test_nothing_in_common_is_unknown_and_not_0() -> None:
    compared = agreement({"a": Output("x")}, {"b": Output("x")})
    assert (compared.same_share, compared.baseline_degenerate_share, compared.unpaired) == (
        None,
        None,
        2,
    )


def test_loops_are_counted_beside_the_agreement() -> None:
    healthy = "A loop is found by what was written before; this sentence of the test was not, so it is none."
    compared = agreement({"a": Output(healthy), "b": Output("yes")}, {"a": Output(healthy), "b": Output("to_" * 60)})
    assert (compared.baseline_degenerate_share, compared.candidate_degenerate_share) == (0.0, 0.5)


def test_a_share_has_the_interval_of_wilson() -> None:
    interval = share(50, 50)
    assert interval is not None
    z = stats.norm.ppf(0.975)
    assert (interval.low, interval.high) == pytest.approx((50 / (50 + z**2), 1.0))
