"""A study that cannot be run is answered with the field and what would be right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lab.errors import StudyError
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
BAD: list[tuple[dict[str, Any], str, str]] = [
    (without("name"), "name", "required"),
    (without("target"), "target", "required"),
    (without("arms"), "arms", "required"),
    (without("workloads"), "workloads", "required"),
    (without("loads"), "loads", "required"),
    (study_dict(name=""), "name", "at least 1 character"),
    (study_dict(name="two\nlines"), "name", "pattern"),
    (study_dict(target=7), "target", "valid string, got 7"),
    (study_dict(targt="x"), "targt", "did you mean target?"),
    (study_dict(arms=[]), "arms", "at least one"),
    (study_dict(arms="none"), "arms", "valid tuple"),
    (study_dict(loads=[]), "loads", "at least one"),
    (study_dict(workloads=[]), "workloads", "at least one"),
    (study_dict(repeats=0), "repeats", "greater than or equal to 1, got 0"),
    (study_dict(repeats="many"), "repeats", "valid integer"),
    (study_dict(endpoint="telepathy"), "endpoint", "'completions' or 'chat'"),
    (study_dict(price_usd_per_hour=-1), "price_usd_per_hour", "greater than or equal to 0"),
    (study_dict(price_usd_per_hour=float("nan")), "price_usd_per_hour", "finite number"),
    (study_dict(arms=[BASELINE, {"name": "b", "baseline": True}]), "", "only one may be the baseline"),
    (study_dict(arms=[{"name": "a"}, {"name": "b"}]), "", "mark the one"),
    (study_dict(arms=[BASELINE, {"name": "a"}]), "", "'a' occurs twice"),
    (study_dict(arms=[{"name": "a", "engin": "vllm"}]), "arms[0].engin", "did you mean engine?"),
    (study_dict(arms=[{"name": "a", "flags": {"x": [1]}}]), "arms[0].flags.x", "valid"),
    (with_draft(model=None), "arms[1].speculation", "needs a draft model"),
    (with_draft(method="ngram"), "arms[1].speculation", "remove model"),
    (with_draft(method="Crystal Ball"), "arms[1].speculation.method", "pattern"),
    (with_draft(method="suffix"), "arms[1].speculation", "drafts without a model: remove model = 'reference-draft'"),
    (with_draft(options={"model": "other"}), "arms[1].speculation", "model belongs beside options"),
    (with_draft(options={"rates": [0.5, [None]]}), "arms[1].speculation.options", "options.rates[1][0] is null"),
    (with_draft(options={"rate": object()}), "arms[1].speculation.options.rate", "JSON"),
    (with_draft(options={"rate": float("inf")}), "arms[1].speculation.options.rate", "finite"),
    (with_draft(method=None), "arms[1].speculation.method", "required"),
    (with_draft(num_speculative_tokens=0), "arms[1].speculation.num_speculative_tokens", "equal to 1, got 0"),
    (with_draft(num_speculative_tokens=None), "arms[1].speculation.num_speculative_tokens", "required"),
    (with_draft(num_speculative_tokens=2.5), "arms[1].speculation.num_speculative_tokens", "got 2.5"),
    (with_draft(prompt_lookup_max=4), "arms[1].speculation", "belong to method ngram"),
    (
        with_draft(method="ngram", model=None, prompt_lookup_min=5, prompt_lookup_max=2),
        "arms[1].speculation",
        "must not exceed",
    ),
    (with_draft(k=3), "arms[1].speculation.k", "not known here"),
    (with_arm(config={"a": {"b": None}}), "arms[0].config", "config.a.b is null"),
    (with_arm(config={"a": object()}), "arms[0].config.a", "JSON"),
    (with_arm(environment={"A": 1}), "arms[0].environment.A", "valid string"),
    (with_arm(server={"base_url": "localhost:8000"}), "arms[0].server.base_url", "pattern"),
    (with_arm(server={"base_url": "http://user:pw@host"}), "arms[0].server.base_url", "pattern"),
    (with_arm(server={"baseurl": "http://h"}), "arms[0].server.baseurl", "did you mean base_url?"),
    (study_dict(workloads=[{"input_tokens": 0}]), "workloads[0].input_tokens", "greater than or equal to 1"),
    (study_dict(hardware=""), "hardware", "at least 1 character"),
    (with_load(arrivals="constant"), "loads[0]", "constant arrivals need a request_rate_rps"),
    (with_load(arrivals="ramp", request_rate_rps=1), "loads[0]", "a ramp needs"),
    (with_load(ramp_to_rps=2, request_rate_rps=1), "loads[0]", "a ramp needs"),
    (with_load(arrivals="trace", burstiness=2), "loads[0]", "burstiness needs"),
    (with_load(arrivals="rampp"), "loads[0].arrivals", "'ramp'"),
    (with_load(duration_s=0), "loads[0].duration_s", "greater than 0"),
    (with_load(stop_on_error_share=1), "loads[0].stop_on_error_share", "less than 1"),
    (with_load(patern="burstiness_mid"), "loads[0].patern", "did you mean pattern?"),
    (with_load(pattern="burstiness_midd"), "loads[0].pattern", "did you mean burstiness_mid?"),
    (with_load(pattern=["x"]), "loads[0].pattern", "is not a known pattern"),
    (with_load(concurrencies=[1, 2]), "loads[0].concurrencies", "belongs to pattern concurrency_sweep"),
    (with_load(pattern="concurrency_sweep"), "loads[0].max_concurrency", "write concurrencies"),
    (sweep(concurrencies=[]), "loads[0].concurrencies", "whole numbers"),
    (sweep(concurrencies=[1, True]), "loads[0].concurrencies", "whole numbers"),
    (sweep(concurrencies=[4, 4]), "loads[0].concurrencies", "differ"),
    (sweep(prompts_per_stream=0), "loads[0].prompts_per_stream", "whole number"),
    (sweep(concurrencies=[5000]), "loads[0].max_concurrency", "less than or equal to 4096"),
    (sweep(label=7), "loads[0].label", "valid string"),
    (sweep(num_prompts=2), "loads[0]", "ask for at least 5 prompts"),
    (study_dict(loads=[{"pattern": "throughput_low"}] * 2), "", "'throughput_low' occurs twice"),
    (with_load(max_concurrency=9), "loads[0]", "ask for at least 9 prompts"),
    (with_load(max_concurrency=0), "loads[0].max_concurrency", "got 0"),
    (with_load(request_rate_rps=0), "loads[0].request_rate_rps", "greater than 0"),
    (with_load(burstiness=0.2), "loads[0]", "burstiness needs a request_rate_rps"),
    (with_load(request_rate_rps=2, burstiness=0), "loads[0].burstiness", "greater than 0"),
    (study_dict(loads=[{"max_concurrency": 1, "num_prompts": 4}] * 2), "", "occurs twice"),
    (study_dict(workloads=[{"output_tokens": 1}]), "workloads[0].output_tokens", "greater than or equal to 2"),
    (study_dict(sampling={"temperature": -1}), "sampling.temperature", "greater than or equal to 0"),
    (study_dict(sampling={"top_p": 0}), "sampling.top_p", "greater than 0"),
    (study_dict(slo={"ttft_ms": 0}), "slo.ttft_ms", "greater than 0"),
    (study_dict(slo={"ttft": 5}), "slo.ttft", "did you mean ttft_ms?"),
]


@pytest.mark.parametrize(("data", "field", "sentence"), BAD, ids=[f"{i:02d}-{bad[2]}" for i, bad in enumerate(BAD)])
def test_a_bad_study_is_answered_with_its_field_and_what_would_be_right(
    data: dict[str, Any], field: str, sentence: str
) -> None:
    with pytest.raises(StudyError) as caught:
        study_from_dict(data)
    assert any(name == field and sentence in text for name, text in caught.value.problems), caught.value.problems


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(StudyError) as caught:
        study_from_dict(study_dict(repeats=0, target=1, loads=[]))
    assert {field for field, _ in caught.value.problems} == {"repeats", "target", "loads"}


def test_one_wrong_item_is_not_also_called_an_empty_list() -> None:
    with pytest.raises(StudyError) as caught:
        study_from_dict(with_load(max_concurrency=9))
    assert [field for field, _ in caught.value.problems] == ["loads[0]"]


def test_a_mistake_in_a_sweep_is_told_once_and_of_the_load_that_was_written() -> None:
    loads = [{"pattern": "concurrency_sweep", "duration_s": -1}, {"max_concurrency": 0, "num_prompts": 4}]
    with pytest.raises(StudyError) as caught:
        study_from_dict(study_dict(loads=loads))
    assert [field for field, _ in caught.value.problems] == ["loads[0].duration_s", "loads[1].max_concurrency"]


def test_an_unknown_pattern_is_not_also_called_an_empty_list() -> None:
    with pytest.raises(StudyError) as caught:
        study_from_dict(study_dict(loads=[{"pattern": "rush_hour"}]))
    assert [field for field, _ in caught.value.problems] == ["loads[0].pattern"]


def test_a_long_wrong_value_does_not_flood_the_message() -> None:
    with pytest.raises(StudyError) as caught:
        study_from_dict(study_dict(repeats="x" * 1_000_000))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("text", ["name = ", "[[arms]\n", "\x00"])
def test_text_that_is_no_toml_is_said_to_be_so(text: str) -> None:
    with pytest.raises(StudyError, match="not valid TOML"):
        study_from_toml(text)


@pytest.mark.parametrize("text", ["{", "[1, 2]", '"study"', "[" * 100_000])
def test_text_that_is_no_json_object_is_said_to_be_so(text: str) -> None:
    with pytest.raises(StudyError, match=r"not valid JSON|is a JSON object"):
        study_from_json(text)


def test_json_and_toml_say_the_same_of_the_same_mistake() -> None:
    with pytest.raises(StudyError) as from_json:
        study_from_json(json.dumps(study_dict(repeats=0)))
    with pytest.raises(StudyError) as from_dict:
        study_from_dict(study_dict(repeats=0))
    assert str(from_json.value) == str(from_dict.value)
