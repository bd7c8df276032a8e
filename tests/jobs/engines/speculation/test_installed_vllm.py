"""The declared options of speculation are those of the installed vLLM: its own source is read, nothing is imported."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from pydantic import JsonValue

from host.settings import load_settings
from jobs.engines.speculation import vllm
from lab.study.methods import METHODS
from tests.workers.homes import REPOSITORY

pytestmark = pytest.mark.engine
#: Methods of vLLM that draft nothing, or nothing of ours: it stores hidden states, or runs a class of the user's.
NOT_DRAFTS = {"extract_hidden_states", "custom_class"}


@cache
def module() -> ast.Module:
    [source] = (REPOSITORY / load_settings().engines_dir / "vllm").glob(
        "lib/python3*/site-packages/vllm/config/speculative.py"
    )
    return ast.parse(Path(source).read_text(encoding="utf-8"))


def fields() -> dict[str, ast.expr]:
    """The fields of vLLM's SpeculativeConfig with their annotations, in its own order."""
    [config] = [node for node in module().body if isinstance(node, ast.ClassDef) and node.name == "SpeculativeConfig"]
    return {
        node.target.id: node.annotation
        for node in config.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }


def literal(name: str) -> set[str]:
    """The texts of a Literal of the module, also of those inside it."""
    [value] = [
        node.value
        for node in module().body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name
    ]
    inner = [literal(part.id) for part in ast.walk(value) if isinstance(part, ast.Name) and part.id != "Literal"]
    texts = {str(part.value) for part in ast.walk(value) if isinstance(part, ast.Constant)}
    return texts.union(*inner)


def test_every_setting_of_the_engine_is_declared_and_nothing_else() -> None:
    declared = {option.name for option in vllm.OPTIONS}
    assert declared | {*vllm.FIELDS, *vllm.INTERNAL, *vllm.MISNAMED} == set(fields())


def test_what_a_setting_may_be_fits_the_type_that_the_engine_declares() -> None:
    shapes: dict[str, JsonValue] = {"bool": True, "int": 3, "float": 1.0, "str": "text", "LoadConfig": {}}
    annotations = fields()
    for option in vllm.OPTIONS:
        names = {part.id for part in ast.walk(annotations[option.name]) if isinstance(part, ast.Name)}
        simple = [shapes[name] for name in names & set(shapes)] if "list" not in names else []
        assert all(option.wrong(value) is None for value in simple), option.name


def test_the_words_of_a_choice_are_the_engines() -> None:
    by_name = {option.name: option for option in vllm.OPTIONS}
    for option, words in (
        ("rejection_sample_method", "RejectionSampleMethod"),
        ("draft_sample_method", "DraftSampleMethod"),
    ):
        assert all(by_name[option].wrong(word) is None for word in literal(words))
        assert set(literal(words)) == set(str(by_name[option].wrong("?")).removeprefix("must be one of ").split(", "))


def test_every_method_of_the_engine_is_known_or_a_variant_of_mtp() -> None:
    variants = literal("MTPModelTypes")
    assert literal("SpeculativeMethod") - variants - NOT_DRAFTS <= set(METHODS)
    assert {method for method in variants if method in METHODS} == {"mtp"}
