"""A study that cannot be run is answered with the field and what would be right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.errors import StudyError
from lab.study import Load, Speculation, Study
from lab.study.load import PATTERN_KEYS
from lab.study.parsing import study_from_dict, study_from_json, study_from_toml
from tests.lab.studies import DRAFT, study_dict


def with_draft(**changes: Any) -> dict[str, Any]:
    """The small study, its draft changed; a value of None removes the key."""
    speculation = {key: value for key, value in (DRAFT | changes).items() if value is not None}
    return study_dict(arms=[{"name": "no draft"}, {"name": "draft", "speculation": speculation}])


def with_load(**changes: Any) -> dict[str, Any]:
    return study_dict(loads=[{"max_concurrency": 1, "num_prompts": 4} | changes])


def with_arm(**changes: Any) -> dict[str, Any]:
    return study_dict(arms=[{"name": "no draft"} | changes])


def sweep(**changes: Any) -> dict[str, Any]:
    return study_dict(loads=[{"pattern": "concurrency_sweep"} | changes])


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in study_dict().items() if name != key}


BASELINE = {"name": "a", "baseline": True}
ARMS: list[dict[str, Any]] = [{"name": "no draft", "baseline": True}, {"name": "draft", "speculation": DRAFT}]
LOAD: dict[str, Any] = {"max_concurrency": 1, "num_prompts": 4}


#: A budget is written in words, and kept in seconds.
STUDY_KEYS = ("budget", *(name for name in Study.model_fields if name != "budget_s"))


def keys(*names: str) -> str:
    """The keys that are known somewhere, as they are listed."""
    return ", ".join(sorted(names))


#: A study, the field of its problem, and the sentence that the user reads.
BAD: list[tuple[dict[str, Any], str, str]] = [
    (without("name"), "name", "is required but missing"),
    (without("loads"), "loads", "is required but missing"),
    (study_dict(name=""), "name", "String should have at least 1 character, got ''"),
    (study_dict(name="two\nlines"), "name", ("String should match pattern '^[^\\x00-\\x1f]+$', got 'two\\nlines'")),
    (
        study_dict(targt="x"),
        "targt",
        f"is not known here: did you mean target? The keys here are {keys(*STUDY_KEYS)}",
    ),
    (study_dict(arms=[]), "arms", "is empty: at least one is needed"),
    (study_dict(loads=[]), "loads", "is empty: at least one is needed"),
    (study_dict(repeats=0), "repeats", "should be greater than or equal to 1, got 0"),
    (
        study_dict(repeats="many"),
        "repeats",
        ("should be a valid integer, unable to parse string as an integer, got 'many'"),
    ),
    (study_dict(endpoint="telepathy"), "endpoint", "should be 'completions' or 'chat', got 'telepathy'"),
    (study_dict(price_usd_per_hour=float("nan")), "price_usd_per_hour", "should be a finite number, got nan"),
    (
        study_dict(arms=[BASELINE, {"name": "b", "baseline": True}]),
        "",
        ("arms: only one may be the baseline, but 'a' and 'b' are marked so"),
    ),
    (
        study_dict(arms=[{"name": "a"}, {"name": "b"}]),
        "",
        ("arms: mark the one that the others are compared with as baseline = true"),
    ),
    (study_dict(arms=[BASELINE, {"name": "a"}]), "", "arms must differ from each other: 'a' occurs twice"),
    (study_dict(arms=[{"name": "a", "flags": {"x": [1]}}]), "arms[0].flags.x", "valid"),
    (
        with_draft(model=None),
        "arms[1].speculation",
        ("method draft_model needs a draft model: set model to a hub name or a folder"),
    ),
    (
        with_draft(method="ngram"),
        "arms[1].speculation",
        ("method ngram drafts without a model: remove model = 'reference-draft'"),
    ),
    (
        with_draft(method="suffix"),
        "arms[1].speculation",
        ("method suffix drafts without a model: remove model = 'reference-draft'"),
    ),
    (
        with_draft(options={"model": "other"}),
        "arms[1].speculation",
        "options: model belongs beside options, not inside",
    ),
    (
        with_draft(options={"rates": [0.5, [None]]}),
        "arms[1].speculation.options",
        ("options.rates[1][0] is null, which a study cannot contain: leave it out"),
    ),
    (with_draft(options={"rate": object()}), "arms[1].speculation.options.rate", "JSON"),
    (
        with_draft(options={"rate": float("inf")}),
        "arms[1].speculation.options.rate",
        "should be a finite number, got inf",
    ),
    (
        with_draft(prompt_lookup_max=4),
        "arms[1].speculation",
        ("prompt_lookup_min and prompt_lookup_max belong to method ngram: remove them"),
    ),
    (
        with_draft(method="ngram", model=None, prompt_lookup_min=5, prompt_lookup_max=2),
        "arms[1].speculation",
        "prompt_lookup_min 5 must not exceed prompt_lookup_max 2",
    ),
    (
        study_dict(tune={"drafted_tokens": [0, 1]}),
        "tune.drafted_tokens",
        "drafted_tokens should be between 1 and 64 (0, no speculation, is always measured)",
    ),
    (study_dict(tune={"beside": ["other"]}), "", "tune.beside: no arm is called 'other'"),
    (study_dict(tune={"beside": ["draft"]}), "", "tune: at least one arm with speculation is needed"),
    (
        study_dict(tune={}, arms=[*ARMS, {"name": "plain"}]),
        "",
        "tune: 'plain' has no speculation to tune: remove it, or name it in tune.beside",
    ),
    (
        study_dict(tune={}, arms=[*ARMS, {"name": "draft k=5", "speculation": DRAFT}]),
        "",
        "tune: name each draft once, as its numbers of tokens are in tune.drafted_tokens",
    ),
    (
        study_dict(tune={}, arms=[{"name": "draft", "speculation": DRAFT, "baseline": True}]),
        "",
        "tune: the baseline has to be an arm without speculation",
    ),
    (
        study_dict(tune={}, workloads=[{"output_tokens": 8}, {"output_tokens": 9}]),
        "",
        "tune: an engine's schedule goes by the load and not by the prompts, so tune one workload at a time",
    ),
    (
        study_dict(tune={}, loads=[LOAD, LOAD | {"label": "again"}]),
        "",
        "tune: a schedule goes by the requests at once: loads need different max_concurrency and no request rate",
    ),
    (
        study_dict(tune={}, loads=[LOAD | {"request_rate_rps": 2.0}]),
        "",
        "tune: a schedule goes by the requests at once: loads need different max_concurrency and no request rate",
    ),
    (
        with_draft(k=3),
        "arms[1].speculation.k",
        f"is not known here: The keys here are {keys(*Speculation.model_fields)}",
    ),
    (
        with_arm(config={"a": {"b": None}}),
        "arms[0].config",
        ("config.a.b is null, which a study cannot contain: leave it out"),
    ),
    (with_arm(config={"a": object()}), "arms[0].config.a", "JSON"),
    (
        with_arm(server={"base_url": "localhost:8000"}),
        "arms[0].server.base_url",
        ("String should match pattern '^https?://[^\\s@]+$', got 'localhost:8000'"),
    ),
    (
        with_arm(server={"base_url": "http://user:pw@host"}),
        "arms[0].server.base_url",
        ("String should match pattern '^https?://[^\\s@]+$', got 'http://user:pw@host'"),
    ),
    (with_load(arrivals="constant"), "loads[0]", "constant arrivals need a request_rate_rps: set a rate"),
    (
        with_load(arrivals="ramp", request_rate_rps=1),
        "loads[0]",
        ('a ramp needs arrivals = "ramp" and ramp_to_rps: set both, or neither'),
    ),
    (
        with_load(ramp_to_rps=2, request_rate_rps=1),
        "loads[0]",
        ('a ramp needs arrivals = "ramp" and ramp_to_rps: set both, or neither'),
    ),
    (
        with_load(arrivals="trace", burstiness=2),
        "loads[0]",
        ("burstiness needs a request_rate_rps and gamma arrivals: set a rate, or leave burstiness out"),
    ),
    (with_load(stop_on_error_share=1), "loads[0].stop_on_error_share", "should be less than 1, got 1"),
    (
        with_load(patern="burstiness_mid"),
        "loads[0].patern",
        f"is not known here: did you mean pattern? The keys here are {keys(*Load.model_fields, *PATTERN_KEYS)}",
    ),
    (
        with_load(pattern="burstiness_midd"),
        "loads[0].pattern",
        (
            "'burstiness_midd' is not a known pattern: did you mean burstiness_mid? The patterns are "
            "throughput_low, throughput_high, burstiness_high, burstiness_mid, burstiness_low, concurrency_sweep"
        ),
    ),
    (with_load(concurrencies=[1, 2]), "loads[0].concurrencies", "belongs to pattern concurrency_sweep: remove it"),
    (
        with_load(pattern="concurrency_sweep"),
        "loads[0].max_concurrency",
        "a sweep has several: write concurrencies = [1, 8, 32]",
    ),
    (sweep(concurrencies=[]), "loads[0].concurrencies", "should be a list of whole numbers from 1 on, got []"),
    (
        sweep(concurrencies=[1, True]),
        "loads[0].concurrencies",
        "should be a list of whole numbers from 1 on, got [1, True]",
    ),
    (sweep(concurrencies=[4, 4]), "loads[0].concurrencies", "should differ from each other, got [4, 4]"),
    (sweep(prompts_per_stream=0), "loads[0].prompts_per_stream", "should be a whole number from 1 on, got 0"),
    (
        with_load(max_concurrency=9),
        "loads[0]",
        ("max_concurrency 9 can never be reached with num_prompts 4: ask for at least 9 prompts"),
    ),
    (
        with_load(burstiness=0.2),
        "loads[0]",
        ("burstiness needs a request_rate_rps and gamma arrivals: set a rate, or leave burstiness out"),
    ),
    (
        study_dict(loads=[{"max_concurrency": 1, "num_prompts": 4}] * 2),
        "",
        "loads must differ from each other: 'c1-n4' occurs twice",
    ),
]


#: Sentences that differ by type of a union, or that show the address of an object, are compared in part.
PARTS = ("valid", "JSON")


@pytest.mark.parametrize(("data", "field", "sentence"), BAD, ids=[f"{i:02d}-{bad[1]}" for i, bad in enumerate(BAD)])
def test_a_bad_study_is_refused_with_field_and_remedy(data: dict[str, Any], field: str, sentence: str) -> None:
    with pytest.raises(StudyError) as caught:
        study_from_dict(data)
    of_field = [text for name, text in caught.value.problems if name == field]
    assert sentence in of_field or (sentence in PARTS and any(sentence in text for text in of_field)), of_field


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(StudyError) as caught:
        study_from_dict(study_dict(repeats=0, target=1, loads=[]))
    assert {field for field, _ in caught.value.problems} == {"repeats", "target", "loads"}


@pytest.mark.parametrize(
    ("load", "field"),
    [
        ({"max_concurrency": 9, "num_prompts": 4}, "loads[0]"),
        ({"pattern": "rush_hour"}, "loads[0].pattern"),
    ],
)
def test_one_wrong_item_is_not_also_called_an_empty_list(load: dict[str, Any], field: str) -> None:
    with pytest.raises(StudyError) as caught:
        study_from_dict(study_dict(loads=[load]))
    assert [where for where, _ in caught.value.problems] == [field]


def test_a_mistake_in_a_sweep_is_named_once_as_written() -> None:
    loads = [{"pattern": "concurrency_sweep", "duration_s": -1}, {"max_concurrency": 0, "num_prompts": 4}]
    with pytest.raises(StudyError) as caught:
        study_from_dict(study_dict(loads=loads))
    assert [field for field, _ in caught.value.problems] == ["loads[0].duration_s", "loads[1].max_concurrency"]


def test_a_long_wrong_value_does_not_flood_the_message() -> None:
    with pytest.raises(StudyError) as caught:
        study_from_dict(study_dict(repeats="x" * 1_000_000))
    assert len(str(caught.value)) < 400


# Numbers too long and nesting too deep for the parser are among them.
@pytest.mark.parametrize(
    "text",
    ["name = ", "[[arms]\n", "\x00", f"repeats = {'9' * 5_000}", f"name = {'[' * 50_000}", f"name = {'{a=' * 50_000}"],
)
def test_text_that_is_no_toml_is_said_to_be_so(text: str) -> None:
    with pytest.raises(StudyError, match="not valid TOML"):
        study_from_toml(text)


@pytest.mark.parametrize("text", ["{", "[1, 2]", '"study"', "[" * 100_000, f'{{"repeats": {"9" * 5_000}}}'])
def test_text_that_is_no_json_object_is_said_to_be_so(text: str) -> None:
    with pytest.raises(StudyError, match=r"not valid JSON|is a JSON object"):
        study_from_json(text)


def test_json_and_toml_say_the_same_of_the_same_mistake() -> None:
    with pytest.raises(StudyError) as from_json:
        study_from_json(json.dumps(study_dict(repeats=0)))
    with pytest.raises(StudyError) as from_dict:
        study_from_dict(study_dict(repeats=0))
    assert str(from_json.value) == str(from_dict.value)
