"""Not worse, worse, inconclusive: by scores of the same prompts, and right as often as promised."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lab.quality.non_inferiority import MARGIN, Quality, paired_difference, quality


def judged(*kinds: tuple[int, float, float]) -> Quality:
    """So many prompts with these scores of baseline and candidate."""
    pairs = [(base, tried) for count, base, tried in kinds for _ in range(count)]
    made = quality(
        {f"p{place}": base for place, (base, _) in enumerate(pairs)},
        {f"p{place}": tried for place, (_, tried) in enumerate(pairs)},
    )
    assert made is not None
    return made


def test_the_interval_holds_the_differences_that_the_score_test_does_not_reject() -> None:
    """By hand. Without a discordant pair the likeliest share of lost prompts is the difference d itself, so that the
    statistic is sqrt(n d / (1 - d)): 1.96 at d = 1.96^2 / (n + 1.96^2). At 0 it is McNemar's.
    """
    square = 1.959964**2
    none = paired_difference(0, 0, 54)
    assert none.value == 0.0
    assert (none.low, none.high) == pytest.approx((-square / (54 + square), square / (54 + square)))
    lost = 4.0
    gained = ((1.959964 + (square + 8 * lost) ** 0.5) / 2) ** 2 - lost  # (gained - lost) / sqrt(gained + lost) is 1.96
    assert paired_difference(gained, lost, 100).low == pytest.approx(0, abs=1e-6)
    published = paired_difference(1, 7, 21)  # Fagerland, Lydersen & Laake 2014, doi:10.1002/sim.6148
    assert (published.low, published.high) == pytest.approx((-0.517, -0.026), abs=0.0006)


def test_equal_answers_are_not_worse_as_soon_as_there_are_enough_prompts() -> None:
    few, many = judged((20, 1, 1)), judged((150, 1, 1), (50, 0, 0))
    assert (few.word, many.word) == ("inconclusive", "not worse")
    assert few.prompts_needed is not None
    assert few.prompts_needed > 20
    assert many.prompts_needed is None
    assert (many.baseline, many.candidate, many.better, many.worse) == (0.75, 0.75, 0, 0)


def test_a_candidate_that_loses_answers_is_worse() -> None:
    lossy = judged((60, 1, 1), (30, 1, 0), (10, 0, 0))
    assert lossy.word == "worse"
    assert lossy.sentence.startswith("worse: score 60.0 % against 90.0 %, -30.0 % [-")
    assert lossy.sentence.endswith("], 100 prompts, margin 5 %")
    assert judged((60, 1, 1), (30, 0, 1), (10, 0, 0)).word == "not worse"


def test_prompts_that_nobody_can_answer_show_nothing() -> None:
    nobody = judged((200, 0, 0), (2, 1, 1))
    assert (nobody.word, nobody.prompts_needed) == ("inconclusive", None)
    assert nobody.sentence.endswith("; so little cannot get worse: choose prompts that the baseline can answer")
    assert judged((180, 0, 0), (20, 0, 1)).word == "not worse"
    lost = judged((480, 0, 0), (20, 1, 0))
    assert (lost.word, lost.sentence.startswith("inconclusive: score 0.0 % against 4.0 %")) == ("inconclusive", True)


def test_a_prompt_that_one_arm_lacks_is_left_out() -> None:
    made = quality({"a": 1.0, "b": 0.0}, {"b": 1.0, "c": 0.0})
    assert made is not None
    assert (made.prompts, made.better) == (1, 1)
    assert quality({"a": 1.0}, {"b": 1.0}) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=40))
def test_the_interval_is_within_possible_differences_and_turns_with_the_arms(
    pairs: list[tuple[float, float]],
) -> None:
    ours, theirs = ({f"p{n}": pair[side] for n, pair in enumerate(pairs)} for side in (0, 1))
    there, back = quality(ours, theirs), quality(theirs, ours)
    assert there is not None
    assert back is not None
    low, high = there.difference.low, there.difference.high
    assert low is not None
    assert high is not None
    assert -1 <= low <= high <= 1
    assert back.difference.value == pytest.approx(-there.difference.value, abs=1e-9)
    assert back.difference.low == pytest.approx(-high, abs=1e-9)


@pytest.mark.parametrize("gained", [0.0, 0.005, 0.04])
def test_false_calls_are_as_rare_as_the_level_says(gained: float) -> None:
    """The chance of "not worse" of an arm that is worse by the margin, and of "worse" of an equal one, over all
    outcomes. Promised: 2.5 % each. Most studies of speculation have few discordant prompts, or none.
    """
    for prompts in (54, 100, 163):
        assert chance_of("not worse", gained, gained + MARGIN, prompts) <= 0.028
        assert chance_of("worse", gained, gained, prompts) <= 0.028
    assert chance_of("worse", 0.01, 0.16, 163) > 0.9


def chance_of(word: str, gaining: float, losing: float, prompts: int) -> float:
    """The chance of a verdict where a prompt is gained or lost with these chances; what is rarer than 1e-7 is left
    out.
    """
    most = [int(stats.binom.isf(1e-7, prompts, chance)) for chance in (gaining, losing)]
    outcomes = [(up, down) for up in range(most[0] + 1) for down in range(most[1] + 1) if up + down <= prompts]
    found = [outcome for outcome in outcomes if word_of(*outcome, prompts) == word]
    shares = [gaining, losing, 1 - gaining - losing]
    return math.fsum(stats.multinomial.pmf([up, down, prompts - up - down], prompts, shares) for up, down in found)


def word_of(gained: int, lost: int, prompts: int) -> str:
    return judged((gained, 0, 1), (lost, 1, 0), (prompts - gained - lost, 1, 1)).word


def test_as_many_prompts_as_would_decide_are_more_than_there_are() -> None:
    for prompts in (20, 72, 150, 500):
        for gained, lost in itertools.product(range(0, prompts // 5, 3), repeat=2):
            made = judged((gained, 0, 1), (lost, 1, 0), (prompts - gained - lost, 1, 1))
            assert made.prompts_needed is None or made.prompts_needed > prompts
