from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.presets import all_presets, load_preset
from lab.errors import StudyError
from lab.study import Arm, Load, Study, Workload
from lab.study.parsing import study_from_toml
from tests.lab.studies import study
from webapp.pages.submit import inputs, values
from webapp.pages.submit.values import (
    FormValues,
    from_study,
    list_text,
    read_numbers,
    read_ranges,
    read_sizes,
    to_study,
    to_toml,
)

TUNE = {"drafted_tokens": [2, 4], "most_repeats": 4, "budget_minutes": 1.5, "schedule": False}
RICH: dict[str, Any] = {
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
            "config": {"kv-cache-dtype": "fp8", "cuda_graph_config": {"max_batch_size": 10, "enable_padding": True}},
            "environment": {"OMP_NUM_THREADS": "1", "QUOTED": 'a "b" = c', "LINES": "one\ntwo", "BLANK": " x "},
        },
        {
            "name": "head",
            "speculation": {
                "method": "eagle3",
                "model": "some/head",
                "num_speculative_tokens": 3,
                "options": {
                    "draft_tensor_parallel_size": 1,
                    "rejection_sample_method": "strict",
                    "num_speculative_tokens_per_batch_size": [[1, 4, 3], [5, 512, 0]],
                },
            },
        },
        {
            "name": "elsewhere",
            "engine": "endpoint",
            "server": {
                "base_url": "https://10.0.0.7:8000",
                "served_model": "served",
                "api_key": "LAB",
                "api_key_header": "api-key",
                "api_path": "/openai/v1",
                "ca_file": "lab.pem",
                "proxy": "http://proxy:3128",
            },
        },
    ],
    "workloads": [
        {"dataset": "own.jsonl", "category": "code", "output_tokens": 32, "ignore_eos": False},
        {"dataset": "sharegpt", "own_output_lengths": True, "output_tokens": 512, "score": "json"},
        {"dataset": "mt_bench", "sessions": {"answers": "recorded", "max_turns": 2, "think": "fixed", "think_s": 1.5}},
        {"dataset": "mt_bench", "sessions": {"reasoning_field": "reasoning_content"}},
        {"dataset": "random_s"},
        {"dataset": "prefix_repetition", "input_tokens": 64, "prefix_tokens": 128, "num_prefixes": 5},
    ],
    "loads": [
        {"max_concurrency": 2, "num_prompts": 8, "request_rate_rps": 1.5, "burstiness": 0.5, "label": "in bursts"},
        {
            "max_concurrency": 2,
            "num_prompts": 8,
            "request_rate_rps": 1.0,
            "arrivals": "ramp",
            "ramp_to_rps": 4.0,
            "duration_s": 30.0,
            "stop_on_error_share": 0.25,
        },
        {"pattern": "concurrency_sweep", "concurrencies": [1, 8]},
    ],
    "repeats": "until decided",
    "budget": "1 h 30 min",
    "order": "side_by_side",
    "repeats_per_launch": 2,
    "fresh_starts": "every_cell",
    "alone": False,
    "seed": 7,
    "endpoint": "chat",
    "sampling": {"temperature": 0.7, "top_p": 0.9, "seed": 5},
    "slo": {"ttft_ms": 200.0, "tpot_ms": 30.0, "e2e_ms": 5000.0},
    "engine_flags": {"max-model-len": 1024, "quantization": "fp8"},
    "price_usd_per_hour": 3.5,
    "hardware": "H200",
}
#: A load of a study with a fixed number of repeats.
CAPACITY = {
    "max_concurrency": 64,
    "num_prompts": 100,
    "find": "rate",
    "slo_share": 0.9,
    "find_from": 0.5,
    "find_to": 64.0,
}
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40)
VALUES = st.recursive(
    st.booleans() | st.integers(-(10**9), 10**9) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("name", [preset.name for preset in all_presets()])
@pytest.mark.parametrize("reference", [False, True])
def test_every_preset_comes_back_from_the_form_as_it_was(name: str, reference: bool) -> None:  # noqa: FBT001 - pytest's
    preset = load_preset(name, reference=reference)
    assert to_study(from_study(preset)) == preset


@pytest.mark.parametrize(
    "parts",
    [
        RICH,
        {"loads": [CAPACITY], "slo": {"ttft_ms": 200.0}},
        {"tune": {}},
        {"tune": TUNE},
        {"spread": True, "repeats": 4},
        {"spread": "hosts", "repeats": 4},
    ],
)
def test_every_part_of_a_study_comes_back_as_it_was(parts: dict[str, Any]) -> None:
    original = study(**parts)
    assert to_study(from_study(original)) == original
    assert study_from_toml(to_toml(from_study(original))) == original


def test_that_study_really_uses_every_field_there_is() -> None:
    """So that a field added to a study later is not forgotten in the form."""
    rich, tuned, spread = study(**RICH), study(tune=TUNE), study(spread=True)
    loads = (*rich.loads, *study(loads=[CAPACITY], slo={"ttft_ms": 200.0}).loads)
    for parts, model in ((rich.arms, Arm), (rich.workloads, Workload), (loads, Load), ((rich, tuned, spread), Study)):
        used = {name for part in parts for name in part.model_dump(exclude_defaults=True)}
        assert used == set(model.model_fields)


def changed(part: str, row: int, cells: dict[str, Any]) -> FormValues:
    filled = from_study(study())
    rows = list(getattr(filled, part))
    rows[row] = {**rows[row], **cells}
    replacements: dict[str, Any] = {part: tuple(rows)}
    return dataclasses.replace(filled, **replacements)


def problems(filled: FormValues) -> dict[str, list[str]]:
    """What stands beside each element of the form, by the element's id."""
    with pytest.raises(StudyError) as refused:
        to_study(filled)
    return beside(refused.value.problems)


def beside(found: list[tuple[str, str]]) -> dict[str, list[str]]:
    shown = list(map(inputs.shown_problem, found))
    return {problem.anchor: [of.beside for of in shown if of.anchor == problem.anchor] for problem in shown}


def test_what_is_wrong_is_said_at_its_row_and_nowhere_else() -> None:
    sentence = "prompts: should be greater than or equal to 1, got 0"
    assert problems(changed("loads", 1, {"num_prompts": 0})) == {"problem-loads-1": [sentence]}


def test_a_method_without_its_draft_model_is_told_so_in_its_row() -> None:
    (sentence,) = problems(changed("arms", 1, {"speculation.model": ""}))["problem-arms-1"]
    assert sentence.startswith("speculation: method draft_model needs a draft model")


def test_a_draft_model_without_a_method_is_not_dropped_silently() -> None:
    found = problems(changed("arms", 0, {"speculation.model": "some/model"}))
    assert any("method: is required" in sentence for sentence in found["problem-arms-0"])


@pytest.mark.parametrize(
    ("path", "text", "beginning"),
    [
        ("flags", "max-num-seqs: 8", "flags: not valid TOML"),
        ("config", "kv-cache-dtype: [fp8", "engine configuration file: not valid YAML"),
        ("config", "- fp8", "engine configuration file: the YAML has no keys"),
        (
            "config",
            "a: &a [1]\nb: [*a, *a]",
            "engine configuration file: not valid YAML: references (*name) are not supported",
        ),
        ("config", f"a: {'[' * 5000}", "engine configuration file: not "),
        ("config", f"a: {'9' * 5000}", "engine configuration file: not a configuration: "),
        ("config", "a" * 100_001, "engine configuration file: it has 100,001 characters: the limit is 100,000"),
        ("config", "since: 2026-11-21", "engine configuration file, since"),
        ("environment", "OMP_NUM_THREADS", "environment: line 1 is not a variable: write one NAME=value per line"),
        ("environment", 'A="b', "environment: line 1: the value begins with a quote"),
        ("speculation.options", "x", "all options of the method: not valid TOML"),
    ],
)
def test_a_text_that_cannot_be_read_says_how_it_is_written(path: str, text: str, beginning: str) -> None:
    sentences = problems(changed("arms", 1, {path: text}))["problem-arms-1"]
    assert any(sentence.startswith(beginning) for sentence in sentences), sentences


def test_two_baselines_are_said_of_the_arms_together() -> None:
    filled = changed("arms", 0, {"baseline": True})
    both = dataclasses.replace(filled, arms=(filled.arms[0], {**filled.arms[1], "baseline": True}))
    (sentence,) = problems(both)["problem-arms"]
    assert sentence.startswith("only one may be the baseline")


def test_a_row_that_was_just_added_asks_for_what_it_needs() -> None:
    filled = from_study(study())
    grown = dataclasses.replace(filled, loads=(*filled.loads, {"max_concurrency": None, "label": ""}))
    sentences = ["concurrency: is required but missing", "prompts: is required but missing"]
    assert problems(grown) == {"problem-loads-2": sentences}


def test_a_form_that_is_not_valid_yet_is_shown_as_text() -> None:
    text = to_toml(changed("loads", 1, {"num_prompts": 0}))
    assert "num_prompts = 0" in text
    with pytest.raises(StudyError):
        study_from_toml(text)


@given(st.dictionaries(NAMES | TEXT, VALUES, max_size=4))
def test_flags_and_options_read_back_as_they_were_from_one_line_each(flags: dict[str, Any]) -> None:
    text = values.flags_text(flags)
    assert values.read_flags(text) == flags
    assert len(text.splitlines()) == len(flags)


@pytest.mark.parametrize(
    ("reader", "text", "value"),
    [
        (read_ranges, "1-4: 3, 5-512: 0", [[1, 4, 3], [5, 512, 0]]),
        (read_ranges, "1: 3", [[1, 1, 3]]),
        (read_ranges, " 1 – 4 :3,", [[1, 4, 3]]),
        (read_ranges, "[[1, 4, 3]]", "[[1, 4, 3]]"),
        (read_ranges, "1-4: 3, rest: 0", "1-4: 3, rest: 0"),
        (read_sizes, "4: 3, 8: 2", {"4": 3, "8": 2}),
        (read_sizes, "4-8: 2", "4-8: 2"),
        (read_numbers, "0.8, 0.5, 1", [0.8, 0.5, 1]),
        (read_numbers, "much", "much"),
        (read_numbers, "inf", "inf"),
        (read_numbers, "", ""),
    ],
)
def test_lists_are_typed_without_brackets(reader: Callable[[str], Any], text: str, value: Any) -> None:
    assert reader(text) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([[1, 4, 3], [5, 512, 0]], "1-4: 3, 5-512: 0"),
        ({"4": 3, "8": 2}, "4: 3, 8: 2"),
        ([0.8, 0.5], "0.8, 0.5"),
        ([], ""),
        ("as typed", "as typed"),
        (3, "3"),
    ],
)
def test_lists_are_shown_as_they_are_typed(value: Any, text: str) -> None:
    assert list_text(value) == text


@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_a_configuration_file_reads_back_as_it_was(config: dict[str, Any]) -> None:
    assert values.read_config(values.config_text(config)) == config


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=5))
def test_an_environment_reads_back_as_it_was(environment: dict[str, str]) -> None:
    assert values.read_environment(values.environment_text(environment)) == environment


@pytest.mark.parametrize("empty", ["", "\n", "  \n"])
def test_an_empty_text_is_nothing(empty: str) -> None:
    assert values.read_config(empty) == values.read_flags(empty) == values.read_environment(empty) == {}


@pytest.mark.parametrize("text", ["max-num-seqs = " + "9" * 5_000, "dtype = " + "[" * 50_000])
def test_flags_with_huge_numbers_or_deep_nesting_are_answered_with_a_sentence(text: str) -> None:
    with pytest.raises(values.UnreadableError, match="not valid TOML"):
        values.read_flags(text)
