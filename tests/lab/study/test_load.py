"""A pattern's name in a study stands for the loads of the published experiments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import StudyError
from lab.study import Load, Study
from lab.study.load import PATTERN_NAMES, PATTERNS, SWEEP
from lab.study.parsing import study_from_dict, study_from_json, study_from_toml, study_to_toml
from tests.lab.studies import study_dict


def loads(*given: dict[str, Any]) -> tuple[Load, ...]:
    return study_from_dict(study_dict(loads=list(given))).loads


#: From the source's own table: rate (None is unlimited), burstiness, concurrency, prompts.
PUBLISHED = {
    "throughput_low": (None, 1.0, 1, 16),
    "throughput_high": (None, 1.0, 32, 256),
    "burstiness_high": (64, 0.2, 32, 256),
    "burstiness_mid": (8, 1.0, 32, 256),
    "burstiness_low": (2, 4.0, 32, 256),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_pattern_is_the_published_one(name: str) -> None:
    (load,) = loads({"pattern": name})
    assert (load.request_rate_rps, load.burstiness, load.max_concurrency, load.num_prompts) == PUBLISHED[name]
    assert (load.label, load.name, load.arrivals) == (name, name, "gamma")


def test_every_pattern_is_known_by_its_name() -> None:
    assert set(PATTERN_NAMES) == {*PUBLISHED, SWEEP} == {*PATTERNS, SWEEP}


def test_a_sweep_is_one_load_for_each_published_concurrency() -> None:
    sweep = loads({"pattern": "concurrency_sweep"})
    assert [load.max_concurrency for load in sweep] == [1, 5, 25, 50, 100, 200]
    assert [load.num_prompts for load in sweep] == [8, 40, 200, 400, 800, 1600]
    assert [load.name for load in sweep][:2] == ["concurrency_sweep c1", "concurrency_sweep c5"]


def test_a_sweep_may_have_concurrencies_prompts_and_a_label_of_its_own() -> None:
    sweep = loads(
        {"pattern": SWEEP, "concurrencies": [2, 8], "prompts_per_stream": 3, "label": "mine", "duration_s": 9}
    )
    assert [(load.name, load.num_prompts, load.duration_s) for load in sweep] == [("mine c2", 6, 9), ("mine c8", 24, 9)]


def test_further_keys_override_a_pattern() -> None:
    (load,) = loads({"pattern": "burstiness_mid", "num_prompts": 64, "label": "shorter"})
    assert (load.num_prompts, load.request_rate_rps, load.name) == (64, 8, "shorter")


def test_a_load_without_a_pattern_is_as_it_was_written() -> None:
    assert loads({"max_concurrency": 2, "num_prompts": 4}) == (Load(max_concurrency=2, num_prompts=4),)


patterns = st.lists(st.sampled_from(PATTERN_NAMES), min_size=1, unique=True)


@given(patterns)
def test_a_stored_study_is_spelt_out_and_reads_back_the_same(names: list[str]) -> None:
    study = study_from_dict(study_dict(loads=[{"pattern": name} for name in names]))
    assert "pattern" not in study_to_toml(study)
    assert study_from_toml(study_to_toml(study)) == study_from_json(study.model_dump_json()) == study
    assert Study.model_validate(study.model_dump()) == study


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(PATTERN_NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
)


@given(st.dictionaries(st.sampled_from(["pattern", "concurrencies", "prompts_per_stream", "label"]), json_values))
def test_whatever_a_load_says_the_answer_is_a_study_or_a_sentence(load: dict[str, Any]) -> None:
    assert all(field.startswith("loads") or not field for field in refused_fields(load))


def refused_fields(load: dict[str, Any]) -> list[str]:
    try:
        study_from_dict(study_dict(loads=[load]))
    except StudyError as error:
        return [field for field, _ in error.problems]
    return []
