"""Not worse, worse, inconclusive: by scores of the same prompts, and right as often as promised."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_the_interval_is_the_one_of_the_formula() -> None:
    """100 pairs, 12 gained and 3 lost: (13 - 4) / 102 and 1.96 times sqrt((13 + 4 - 81 / 102) / 102^2)."""
    interval = paired_difference(12, 3, 100)
    assert interval.value == 0.09
    assert interval.low == pytest.approx(9 / 102 - 1.959964 * (17 - 81 / 102) ** 0.5 / 102)
    assert interval.high == pytest.approx(9 / 102 + 1.959964 * (17 - 81 / 102) ** 0.5 / 102)


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


def test_false_calls_are_as_rare_as_the_level_says() -> None:
    """2,000 studies each: 100 and 300 prompts, a fifth of the pairs discordant. Promised: at most 2.5 % each."""
    random = np.random.default_rng(7)

    def words(worse_by: float, prompts: int) -> dict[str, float]:
        gained, lost = 0.1 - worse_by / 2, 0.1 + worse_by / 2
        found = {"worse": 0, "not worse": 0, "inconclusive": 0}
        for up, down, _ in random.multinomial(prompts, [gained, lost, 1 - gained - lost], 2000):
            interval = paired_difference(up, down, prompts)
            assert interval.low is not None
            assert interval.high is not None
            word = "not worse" if interval.low > -MARGIN else "worse" if interval.high < 0 else "inconclusive"
            found[word] += 1
        return {word: count / 2000 for word, count in found.items()}

    for prompts in (100, 300):
        assert words(0.0, prompts)["worse"] <= 0.03
        assert words(MARGIN, prompts)["not worse"] <= 0.03
    assert words(0.15, 300)["worse"] > 0.9
