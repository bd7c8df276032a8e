"""Acceptance by prompt in the answer files of EAGLE, Medusa and Spec-Bench."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interchange.files import ForeignFile
from interchange.reading import read_runs
from lab.errors import ForeignFileError
from warehouse.bundles.imported_run import ImportedRun


def line(rounds: dict[str, list[int]], category: str | None = None, **changes: Any) -> dict[str, Any]:
    choice = {"index": 0, "turns": ["Once", "upon"], "new_tokens": [58, 30], "wall_time": [1.5, 0.7], **rounds}
    about = {"question_id": 81, "model_id": "eagle-7b-temperature-0.0", "tstamp": 1.7e9}
    return about | ({"category": category} if category else {}) | {"choices": [choice | changes]}


def imported(*lines: dict[str, Any]) -> tuple[ImportedRun, ...]:
    return read_runs([ForeignFile("answers.jsonl", "\n".join(map(json.dumps, lines)).encode())]).runs


def test_each_turn_is_a_request_with_its_rounds_and_accepted_tokens() -> None:
    (run,) = imported(line({"decoding_steps": [20, 15]}))
    assert run.requests is not None
    assert run.requests.texts("spec_drafts").to_pylist() == [20, 15]
    assert run.requests.texts("spec_accepted_tokens").to_pylist() == [38, 15]
    assert run.requests.texts("output_text").to_pylist() == ["Once", "upon"]
    assert run.metrics["acceptance_length"] == pytest.approx(88 / 35)
    assert [run.metrics["output_tok_per_s"], run.metrics["e2e_mean_ms"]] == pytest.approx([40.0, 1100.0])
    assert run.metrics["acceptance_rate"] is run.metrics["num_draft_tokens"] is None
    assert (run.labels, run.columns["concurrency"]) == ({"arm": "eagle-7b-temperature-0.0"}, 1)


def test_rounds_of_eagle_and_medusa_are_numbered_from_zero() -> None:
    (run,) = imported(line({"idxs": [19, 14]}))
    assert run.metrics["num_drafts"] == 35


def test_a_file_without_speculation_has_no_acceptance() -> None:
    (run,) = imported(line({"idxs": [57, 29]}))
    assert run.metrics["num_drafts"] is run.metrics["acceptance_length"] is None
    assert run.metrics["completion_tokens"] == 88


def test_tokens_that_were_not_counted_are_unknown() -> None:
    (run,) = imported(line({"idxs": [511, 300]}, new_tokens=[0, 0]))
    assert run.metrics["completion_tokens"] is run.metrics["output_tok_per_s"] is run.metrics["num_drafts"] is None
    assert run.metrics["e2e_mean_ms"] == pytest.approx(1100.0)


def test_each_category_is_a_run_of_its_own() -> None:
    steps = {"decoding_steps": [20, 15]}
    runs = imported(line(steps, "writing"), line(steps, "math"), line(steps, "writing"))
    assert [(run.labels["category"], run.metrics["requests_completed"]) for run in runs] == [
        ("writing", 4),
        ("math", 2),
    ]


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (line({"idxs": [19]}), "its turns, new_tokens, wall_time and rounds differ in number"),
        (line({"decoding_steps": [60, 15]}), "60 rounds are more than 58 tokens, but each yields one"),
        (line({}, wall_time=[1.5, -1]), "greater than or equal to 0, not -1"),
    ],
)
def test_answers_that_contradict_themselves_are_refused(answer: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ForeignFileError, match=sentence):
        imported(answer)
