"""The inputs of the form: drawn from the fields of the study's models, with the problems beside them."""

from __future__ import annotations

import re
from typing import Literal, get_args, get_origin

import pytest
from pydantic import BaseModel

from lab.study import Study
from lab.study.model_base import Input
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.submit_form import unfold
from webapp.pages.submit import inputs, study_fields
from webapp.pages.submit.values import BUDGET, FIELDS, TABLES, field_of, from_study, row_of


def test_the_form_has_a_field_for_everything_a_study_has() -> None:
    drawn = (*study_fields.FIRST, *(path for row in study_fields.MORE for path in row), *study_fields.TEXT_AREAS)
    assert sorted(drawn) == sorted(FIELDS) == sorted(from_study(study()).fields)


@pytest.mark.parametrize("model", [Study, *TABLES.values()])
def test_each_field_has_a_title_and_a_word_for_each_choice(model: type[BaseModel]) -> None:
    for path in row_of(model, None):
        info, rest = field_of(model, path)
        assert (bool(info.title), rest) == (True, ""), path
        types = (info.annotation, *get_args(info.annotation))
        literals = {value for of in types if get_origin(of) is Literal for value in get_args(of)}
        literals |= {True, False} if literals and bool in types else set()
        called = [set(of.choices) for of in info.metadata if isinstance(of, Input) and of.choices]
        assert not literals or called in ([], [literals]), path


def test_a_field_has_the_title_help_and_kind_that_its_model_declares(open_page: OpenPage) -> None:
    app = unfold(open_page("submit"), "more")
    kinds = ("text_input", "number_input", "selectbox", "text_area")
    drawn = {str(widget.key): (widget.type, widget) for kind in kinds for widget in getattr(app, kind)}
    kind_of = {BUDGET: "text_input", "repeats": "number_input", "slo.ttft_ms": "number_input", "tune": "text_area"}
    kind_of |= {"order": "selectbox", "alone": "selectbox", "spread": "selectbox", "hardware": "text_input"}
    for path in FIELDS:
        (found,) = (of for key, of in drawn.items() if re.fullmatch(rf"submit-\d+-{re.escape(path)}", key))
        info, _ = field_of(Study, path)
        assert found[1].label.startswith(str(info.title))
        assert found[1].help == (info.description or "")
        assert found[0] == kind_of.get(path, found[0])


@pytest.mark.parametrize(
    ("problem", "anchor", "where", "sentence"),
    [
        (("sampling.top_p", "is 0"), "problem-sampling-top_p", "Top p", "is 0"),
        (("price_usd_per_hour", "is 0"), "problem-price_usd_per_hour", "Price", "is 0"),
        (("slo.ttft_ms", "is 0"), "problem-slo-ttft_ms", "TTFT bound", "is 0"),
        (("budget", "is 0"), "problem-budget", "Stop when decided, at most", "is 0"),
        (("engine_flags.x", "is 0"), "problem-engine_flags", "Engine flags for every arm", "x is 0"),
        (("tune.most_repeats", "is 0"), "problem-tune", "Tuning", "most_repeats is 0"),
        (("arms[1].speculation.model", "is 0"), "problem-arms-1", "Arm 2, draft model", "draft model: is 0"),
        (("arms[1].flags.x", "is 0"), "problem-arms-1", "Arm 2, flags, x", "flags, x: is 0"),
        (("arms[1].server.base_url", "is 0"), "problem-arms-1", "Arm 2, server URL", "server URL: is 0"),
        (("arms[1].unheard_of", "is 0"), "problem-arms-1", "Arm 2, unheard of", "unheard of: is 0"),
        (("loads[0]", "is 0"), "problem-loads-0", "Load 1", "is 0"),
        (("loads[0].request_rate_rps", "is 0"), "problem-loads-0", "Load 1, rate", "rate: is 0"),
        (("", "arms: none"), "problem-arms", "Arms", "none"),
        (("", "something about the whole"), "problem-elsewhere", "Study", "something about the whole"),
        (("unheard_of", "what is this"), "problem-elsewhere", "unheard_of", "unheard_of: what is this"),
    ],
)
def test_a_problem_stands_beside_its_field_row_or_table(
    problem: tuple[str, str], anchor: str, where: str, sentence: str
) -> None:
    shown = inputs.shown_problem(problem)
    assert (shown.anchor, shown.where, shown.beside) == (anchor, where, sentence)


@pytest.mark.parametrize(
    ("typed", "taken"),
    [
        ("our", "our_prompts"),
        ("PROMPTS", "our_prompts"),
        ("gsm", "gsm8k"),
        ("spec", "spec_bench"),
        ("our_prompts", "our_prompts"),
        ("code", "code"),
        ("./our", "./our"),
        ("/data/our.jsonl", "/data/our.jsonl"),
        (None, None),
    ],
)
def test_enter_takes_the_nearest_offered_value_or_what_was_typed(typed: str | None, taken: str | None) -> None:
    assert inputs.nearest(typed, ["new_spec", "spec_bench", "our_prompts", "gsm8k"]) == taken
