from __future__ import annotations

import dataclasses
from typing import Any

import pandas as pd
import pytest

from lab.errors import StudyError
from lab.study_text import study_from_toml
from tests.lab.studies import study
from webapp import study_form, study_problems
from webapp.study_editor import DEMO_FILE, FIELDS
from webapp.study_form import FormValues, from_study, to_study

RICH = {
    "arms": [
        {"name": "no draft", "baseline": True, "flags": {"max-num-seqs": 8, "enforce-eager": True, "dtype": "float32"}},
        {
            "name": "n-gram",
            "engine": "vllm-next",
            "speculation": {
                "method": "ngram",
                "num_speculative_tokens": 5,
                "prompt_lookup_min": 2,
                "prompt_lookup_max": 4,
            },
        },
        {"name": "head", "speculation": {"method": "eagle3", "model": "some/head", "num_speculative_tokens": 3}},
    ],
    "workloads": [{"dataset": "own.jsonl", "output_tokens": 32, "ignore_eos": False}],
    "loads": [{"max_concurrency": 2, "num_prompts": 8, "request_rate_rps": 1.5, "burstiness": 0.5}],
    "repeats": 3,
    "seed": 7,
    "endpoint": "chat",
    "sampling": {"temperature": 0.7, "top_p": 0.9, "seed": 5},
    "slo": {"ttft_ms": 200.0, "e2e_ms": 5000.0},
    "engine_flags": {"max-model-len": 1024, "quantization": "fp8"},
    "price_usd_per_hour": 3.5,
}


def test_the_demo_study_comes_back_from_the_form_as_it_was() -> None:
    demo = study_from_toml(DEMO_FILE.read_text(encoding="utf-8"))
    assert to_study(from_study(demo)) == demo


def test_a_study_that_uses_every_field_comes_back_as_it_was() -> None:
    rich = study(**RICH)
    assert to_study(from_study(rich)) == rich


def test_the_form_has_a_field_for_everything_a_study_has() -> None:
    assert set(from_study(study()).fields) == set(FIELDS)


def changed(part: str, row: int, **cells: Any) -> FormValues:
    values = from_study(study())
    table: pd.DataFrame = getattr(values, part).copy()
    for column, value in cells.items():
        table.loc[row, column] = value
    replacements: dict[str, Any] = {part: table}
    return dataclasses.replace(values, **replacements)


def problems(values: FormValues) -> list[tuple[str, str]]:
    with pytest.raises(StudyError) as refused:
        to_study(values)
    return refused.value.problems


def test_a_wrong_cell_is_named_by_row_and_column() -> None:
    found = problems(changed("loads", 1, num_prompts=0))
    assert study_problems.of_table(found, "loads") == ["Row 2, prompts: should be greater than or equal to 1, got 0"]
    assert study_problems.of_table(found, "arms") == []


def test_a_method_without_its_draft_model_is_told_so_in_its_row() -> None:
    (said,) = study_problems.of_table(problems(changed("arms", 1, draft_model="")), "arms")
    assert said.startswith("Row 2, speculation: method draft_model needs a draft model")


def test_a_draft_model_without_a_method_is_not_dropped_silently() -> None:
    found = problems(changed("arms", 0, draft_model="some/model"))
    assert any("Row 1, method: is required" in said for said in study_problems.of_table(found, "arms"))


def test_flags_that_are_no_toml_say_how_they_are_written() -> None:
    (said,) = study_problems.of_table(problems(changed("arms", 0, flags="max-num-seqs: 8")), "arms")
    assert said.startswith("Row 1, flags: these flags are no TOML")
    assert "max-num-seqs = 8" in said


def test_two_baselines_are_said_under_the_arms() -> None:
    values = changed("arms", 0, baseline=True)
    values.arms.loc[1, "baseline"] = True
    (said,) = study_problems.of_table(problems(values), "arms")
    assert said.startswith("only one may be the baseline")


def test_an_empty_row_that_was_just_added_asks_for_what_it_needs() -> None:
    values = from_study(study())
    empty = pd.DataFrame([dict.fromkeys(values.loads.columns)], columns=values.loads.columns)
    grown = dataclasses.replace(values, loads=pd.concat([values.loads.astype(object), empty], ignore_index=True))
    said = study_problems.of_table(problems(grown), "loads")
    assert said == ["Row 3, concurrency: is required but missing", "Row 3, prompts: is required but missing"]


def test_a_wrong_field_is_said_beside_that_field_only() -> None:
    values = from_study(study())
    found = problems(dataclasses.replace(values, fields={**values.fields, "sampling.top_p": 0.0}))
    assert len(study_problems.of_field(found, "sampling.top_p")) == 1
    assert [study_problems.of_field(found, field) for field in FIELDS if field != "sampling.top_p"] == [[]] * (
        len(FIELDS) - 1
    )
    assert study_problems.elsewhere(found, FIELDS) == []


def test_no_problem_is_lost_between_the_fields() -> None:
    found = [("", "something about the whole"), ("unheard_of", "what is this")]
    assert study_problems.elsewhere(found, FIELDS) == ["something about the whole", "unheard_of: what is this"]


def test_whole_numbers_that_a_table_made_floats_are_whole_again() -> None:
    assert study_form.to_study(changed("loads", 0, burstiness=1.0)) == study()
