"""What to measure next: the sentence, the button and the study follow from one plan."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.advice.answer import Answer, JudgedPair, answer
from lab.advice.next_study import LEAST_REPEATS, MOST_REPEATS, MOST_TIMES_PROMPTS, follow_up, next_study, sentence
from tests.lab.advice.judged_pairs import judged
from tests.lab.studies import study

IF_ALIKE = " if ratios and scatter stay as they are."
WORKLOAD, LOADS = "reference/code/16", {1: "c1-n4", 4: "c4-n8"}


def of(*pairs: JudgedPair) -> Answer:
    return answer(pairs, metric="output_tok_per_s", baseline="no draft")


def open_answer(more: int | None, workload: str = WORKLOAD) -> Answer:
    """Three repeats: at concurrency 1 decided, at 4 inconclusive."""
    return of(
        judged("draft", 1, "faster", workload=workload, load=LOADS[1]),
        judged("draft", 4, "inconclusive", (1.01, 0.9, 1.13), workload=workload, load=LOADS[4], more=more),
    )


def test_only_inconclusive_cells_are_measured_again_with_the_repeats_they_need() -> None:
    proposed = next_study(study(repeats=3), open_answer(4))
    assert proposed is not None
    assert [arm.name for arm in proposed.arms] == ["no draft", "draft"]
    assert [load.name for load in proposed.loads] == ["c4-n8"]
    assert (proposed.repeats, proposed.budget_s) == (7, None)


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        ([4], f"1 of 2 comparisons is inconclusive. A follow-up of 7 repeats would decide it{IF_ALIKE}"),
        ([5, 20], ("2 of 3 comparisons are inconclusive. A follow-up of 20 repeats with twice the prompts would decide "
         f"both{IF_ALIKE}")),
        ([1, 2, 140], ("3 of 4 comparisons are inconclusive. A follow-up of 5 repeats would decide most of them"
         f"{IF_ALIKE}")),
        ([None], ("1 of 2 comparisons is inconclusive. A follow-up of 3 repeats with 4 times the prompts is the next "
         "step, as repeats alone would not decide it.")),
        ([700], ("1 of 2 comparisons is inconclusive, and even 20 repeats with 8 times the prompts would not decide "
         "it.")),
        ([700, 800], ("2 of 3 comparisons are inconclusive, and even 20 repeats with 8 times the prompts would not "
         "decide any of them.")),
        ([None, 36, 1, 159], ("4 of 5 comparisons are inconclusive. A follow-up of 4 repeats would decide 1 of them"
         f"{IF_ALIKE}")),
        ([None, 36, 40, 159], ("4 of 5 comparisons are inconclusive. A follow-up of 20 repeats with 3 times the "
         f"prompts would decide 2 of them{IF_ALIKE}")),
    ],
)  # fmt: skip
def test_the_sentence_says_what_to_measure_and_what_that_decides(needed: list[int | None], expected: str) -> None:
    inconclusive = [judged("E", 2**place, "inconclusive", more=more) for place, more in enumerate(needed)]
    assert sentence(of(*inconclusive, judged("E", 64, "faster"))) == expected


def test_a_follow_up_measures_only_the_comparisons_that_it_would_decide() -> None:
    loads = [{"max_concurrency": streams, "num_prompts": 8} for streams in (1, 4, 8)]
    needed = {1: 1, 4: 700, 8: None}
    found = of(
        *(
            judged("draft", streams, "inconclusive", workload=WORKLOAD, load=f"c{streams}-n8", more=more)
            for streams, more in needed.items()
        )
    )
    proposed = next_study(study(loads=loads), found)
    assert "would decide 1 of them" in sentence(found)
    assert proposed is not None
    assert ([load.name for load in proposed.loads], proposed.repeats) == (["c1-n8"], 4)


def test_what_only_engine_starts_would_decide_is_measured_on_more_of_them() -> None:
    found = follow_up(of(judged("E", 1, "inconclusive", starts=5)))
    assert found is not None
    assert (found.repeats, found.prompts) == (8, 1)
    two_on_each = follow_up(of(judged("E", 1, "inconclusive", starts=5, repeats=6)))
    assert two_on_each is not None
    assert (two_on_each.repeats, two_on_each.prompts) == (16, 1)


def test_a_plan_for_most_comparisons_is_enough_for_repeats_and_for_starts() -> None:
    found = of(judged("E", 1, "inconclusive", more=10), judged("E", 4, "inconclusive", starts=2))
    assert "A follow-up of 13 repeats would decide both" in sentence(found)


def test_why_comparisons_have_no_interval_is_told() -> None:
    alone = judged("E", 1, "inconclusive", (1.5, None, None))  # type: ignore[arg-type]
    assert sentence(of(alone)) == (
        "The only comparison is inconclusive. A follow-up of 3 repeats would show how much runs vary, which fewer do "
        "not."
    )
    assert "no valid number" in sentence(of(judged("E", 1, "inconclusive", None)))


@pytest.mark.parametrize(
    ("seconds", "minutes"), [(10.0, "1 min"), (89.0, "1 min"), (91.0, "2 min"), (7140.0, "119 min"), (7200.0, "2 h")]
)
def test_the_time_of_the_follow_up_is_told_in_minutes_or_hours(seconds: float, minutes: str) -> None:
    assert f"7 repeats (about {minutes}) would" in sentence(open_answer(4), seconds)


@given(st.lists(st.one_of(st.none(), st.integers(1, 1000)), min_size=1, max_size=8), st.booleans())
def test_sentence_and_study_name_the_same_repeats_and_prompts(needed: list[int | None], has_interval: bool) -> None:  # noqa: FBT001
    ratio: Any = (1.1, 0.9, 1.3) if has_interval else (1.1, None, None)
    pairs = [
        judged(
            "draft",
            4,
            "inconclusive",
            ratio,
            workload=WORKLOAD,
            load=LOADS[4],
            more=more,
        )
        for more in needed
    ]
    found, plan = of(*pairs), follow_up(of(*pairs))
    proposed = next_study(study(), found)
    if plan is None:
        assert (proposed, "A follow-up" in sentence(found)) == (None, False)
        return
    assert proposed is not None
    assert f"A follow-up of {plan.what} " in sentence(found)
    assert plan.what.startswith(f"{proposed.repeats} repeats")
    assert [load.num_prompts for load in proposed.loads] == [8 * plan.prompts]
    assert LEAST_REPEATS <= plan.repeats <= MOST_REPEATS
    assert 1 <= plan.prompts <= MOST_TIMES_PROMPTS


def test_where_nothing_is_inconclusive_there_is_no_follow_up() -> None:
    decided = of(judged("draft", 1, "faster", workload=WORKLOAD))
    assert (follow_up(decided), sentence(decided), next_study(study(), decided)) == (None, "", None)


def test_what_the_study_does_not_know_is_not_made_up() -> None:
    assert next_study(study(), open_answer(4, workload="imported")) is None


def test_the_follow_up_of_a_study_until_decided_has_no_budget() -> None:
    proposed = next_study(study(repeats="until decided", budget="45 min"), open_answer(5))
    assert proposed is not None
    assert (proposed.repeats, proposed.budget_s) == (8, None)
