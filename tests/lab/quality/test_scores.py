"""The score of an answer, and of a run's answers."""

from __future__ import annotations

import numpy as np
import pytest

from lab.metrics.measure import measure
from lab.metrics.request_table import RequestTable
from lab.quality.code_answers import UNIT_TESTS
from lab.quality.scores import SCORES, score, scores
from lab.study import Workload
from tests.warehouse.runs import failed_request, request, run_record


@pytest.mark.parametrize(
    ("kind", "answer", "expected", "value"),
    [
        ("exact", " Paris\n", "paris", 1),
        ("exact", "Paris, of course", "paris", 0),
        ("contains", "It is  New\nYork.", "new york", 1),
        ("contains", "It is York.", "new york", 0),
        ("number", "So 3 + 4 = 7 and 1,234.50 in all.", "#### 1234.5", 1),
        ("number", "about 12", "13", 0),
        ("number", "none at all", "none", 0),
        ("number", "-3", "3", 0),
        ("number", "in 2023-2024", "2024", 1),
        ("number", "it is .5", "0.5", 1),
        ("number", "it is -.5", "5", 0),
        ("number", "so...5 of 1.2.3", "3", 1),
        ("json", '{"a": [1, 2]}', None, 1),
        ("json", '```json\n{"a": 1}\n```', '{"a": 1}', 1),
        ("json", '{"a": 1}', '{"a": 2}', 0),
        ("json", '{"a": 1', None, 0),
        ("json", "", None, 0),
        ("exact", "Paris", None, None),
    ],
)
def test_an_answer_is_right_or_wrong_by_its_kind(
    kind: str, answer: str, expected: str | None, value: float | None
) -> None:
    assert score(kind, answer, expected) == value


def test_every_kind_of_a_workload_has_a_score_and_words() -> None:
    for kind in SCORES:
        assert Workload.model_validate({"score": kind}).score == kind
        if kind != UNIT_TESTS:
            assert score(kind, "1", "1") == 1.0
    for kind in ("taste", UNIT_TESTS):
        with pytest.raises(KeyError):
            score(kind, "1", "1")


def test_unit_tests_score_what_ran_elsewhere_and_no_code_runs_here() -> None:
    tested = [request(index=place, tests_passed=passed) for place, passed in enumerate((1.0, 0.0, None))]
    table = RequestTable.of([*tested, failed_request(index=3)])
    assert np.array_equal(scores(UNIT_TESTS, table), [1.0, 0.0, np.nan, np.nan], equal_nan=True)
    run = run_record(workload=Workload(category="code", output_tokens=16, score="unit_tests"))
    metrics = measure(run, table)
    assert (metrics["requests_scored"], metrics["task_score"]) == (2, 0.5)


def test_reasoning_is_not_scored_and_a_failed_request_has_no_score() -> None:
    thought = request(output_text="<think>43</think>42", reasoning_chars=17, expected="42")
    requests = (thought, request(index=1, output_text="43", expected="42"), failed_request(index=2, expected="42"))
    table = RequestTable.of((*requests, request(index=3, expected=None)))
    assert np.array_equal(scores("exact", table), [1.0, 0.0, np.nan, np.nan], equal_nan=True)
    run = run_record(workload=Workload(category="code", output_tokens=16, score="exact"))
    metrics = measure(run, table)
    assert (metrics["requests_scored"], metrics["task_score"]) == (2, 0.5)
    unscored = measure(run_record(), table)
    assert (unscored["requests_scored"], unscored["task_score"]) == (None, None)
