"""The study that would decide what an answer leaves inconclusive."""

from __future__ import annotations

import pytest

from lab.advice.answer import Answer, answer
from lab.advice.next_study import MOST_REPEATS, next_study
from tests.lab.advice.judged_pairs import judged
from tests.lab.studies import study

WORKLOAD, LOADS = "reference/code/16", {1: "c1-n4", 4: "c4-n8"}


def open_answer(more: int | None, workload: str = WORKLOAD) -> Answer:
    """At concurrency 1 decided, at 4 open."""
    pairs = [
        judged("draft", 1, "faster", workload=workload, load=LOADS[1]),
        judged("draft", 4, "inconclusive", (1.01, 0.9, 1.13), workload=workload, load=LOADS[4], more=more),
    ]
    return answer(pairs, metric="output_tok_per_s", baseline="no draft")


def test_only_inconclusive_cells_are_measured_again_with_the_repeats_they_need() -> None:
    proposed = next_study(study(repeats=3), open_answer(4))
    assert proposed is not None
    assert [arm.name for arm in proposed.arms] == ["no draft", "draft"]
    assert [load.name for load in proposed.loads] == ["c4-n8"]
    assert proposed.repeats == 7


@pytest.mark.parametrize(("more", "repeats"), [(None, 3), (1, 3), (700, MOST_REPEATS)])
def test_repeats_are_three_at_least_and_never_hundreds(more: int | None, repeats: int) -> None:
    proposed = next_study(study(), open_answer(more))
    assert proposed is not None
    assert proposed.repeats == repeats


@pytest.mark.parametrize(("more", "prompts"), [(4, 8), (17, 8), (57, 24), (700, 64)])
def test_what_hundreds_of_repeats_would_decide_is_measured_with_more_prompts(more: int, prompts: int) -> None:
    proposed = next_study(study(repeats=3), open_answer(more))
    assert proposed is not None
    assert [load.num_prompts for load in proposed.loads] == [prompts]


def test_where_nothing_is_inconclusive_there_is_no_next_study() -> None:
    decided = answer([judged("draft", 1, "faster", workload=WORKLOAD)], metric="output_tok_per_s", baseline="no draft")
    assert next_study(study(), decided) is None


def test_what_the_study_does_not_know_is_not_made_up() -> None:
    assert next_study(study(), open_answer(4, workload="imported")) is None


def test_of_a_study_until_decided_only_what_more_it_takes_counts() -> None:
    """Its repeats are the most that it might have had, and its budget is spent."""
    proposed = next_study(study(repeats="until decided", budget="45 min"), open_answer(5))
    assert proposed is not None
    assert (proposed.repeats, proposed.budget_s) == (5, None)
