"""A study that was measured becomes a tuning of its drafts."""

from __future__ import annotations

import pytest

from lab.errors import StudyError
from lab.tuning.beginning import tuning_of
from tests.lab.studies import DRAFT, study

ARMS = [
    {"name": "no draft"},
    {"name": "draft k=3", "speculation": DRAFT},
    {"name": "draft k=5", "speculation": DRAFT | {"num_speculative_tokens": 5}},
]
WORKLOADS = [{"dataset": "reference", "category": name, "output_tokens": 16} for name in ("code", "repeat")]


def test_each_draft_is_tuned_once_for_the_workload_that_is_named() -> None:
    measured = study(arms=ARMS, workloads=WORKLOADS)
    tuning = tuning_of(measured, workload="reference/repeat/16", drafted_tokens=(1, 4), budget_minutes=5.0)
    assert [workload.name for workload in tuning.workloads] == ["reference/repeat/16"]
    assert [arm.speculation is not None for arm in tuning.arms] == [False, True]
    assert tuning.name == f"{measured.name}, tuned"
    assert tuning.tune is not None
    assert (tuning.tune.drafted_tokens, tuning.tune.budget_minutes) == ((1, 4), 5.0)
    assert tuning_of(tuning) == tuning
    assert tuning.loads == measured.loads


@pytest.mark.parametrize(
    ("arms", "workload", "why"),
    [
        (ARMS[:1], "reference/code/16", "at least one arm with speculation"),
        (ARMS, None, "one workload at a time"),
        (ARMS, "another", "workloads"),
    ],
)
def test_what_cannot_be_tuned_says_why(arms: list[dict[str, object]], workload: str | None, why: str) -> None:
    with pytest.raises(StudyError, match=why):
        tuning_of(study(arms=arms, workloads=WORKLOADS), workload=workload)
