"""What a study means."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from lab.study import Arm, Load, Sampling, Slo, Speculation, Study, Tune, Workload
from lab.study.arm import SCHEDULE
from lab.study.parsing import study_from_json, study_from_toml, study_to_toml
from lab.study.tune import drafts
from tests.lab.studies import study, study_dict

names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=30).filter(
    str.strip
)
positive = st.floats(min_value=0.01, max_value=1e6, allow_nan=False)
arrivals = st.one_of(
    st.fixed_dictionaries({"request_rate_rps": st.none() | positive}),
    st.fixed_dictionaries({"request_rate_rps": positive, "burstiness": positive}),
    st.fixed_dictionaries({"request_rate_rps": positive, "arrivals": st.sampled_from(["constant", "trace"])}),
    st.fixed_dictionaries({"request_rate_rps": positive, "ramp_to_rps": positive, "arrivals": st.just("ramp")}),
)
ends = st.fixed_dictionaries(
    {"duration_s": st.none() | st.floats(1, 600), "stop_on_error_share": st.none() | st.floats(0.01, 0.99)}
)
loads = st.builds(
    lambda concurrency, more, arriving, ending: Load(
        max_concurrency=concurrency, num_prompts=concurrency + more, **arriving, **ending
    ),
    st.integers(1, 512),
    st.integers(0, 1000),
    arrivals,
    ends,
)
settings = st.dictionaries(
    names,
    st.recursive(
        st.booleans() | st.integers(-5, 5) | names,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=2),
    ),
    max_size=2,
)
speculations = st.builds(
    Speculation,
    method=st.sampled_from(["draft_model", "eagle3"]),
    model=names,
    num_speculative_tokens=st.integers(1, 9),
    options=settings,
)
flags = st.dictionaries(names, st.booleans() | st.integers(-5, 5) | names, max_size=3)
studies = st.builds(
    lambda name, target, arm, others, workloads, loads, **rest: Study(
        name=name, target=target, arms=(arm, *others), workloads=workloads, loads=loads, **rest
    ),
    names,
    names,
    st.builds(Arm, name=names.map(lambda name: f"baseline {name}"), baseline=st.just(value=True), flags=flags),
    st.lists(
        st.builds(
            Arm,
            name=names,
            speculation=speculations,
            config=settings,
            environment=st.dictionaries(names, names, max_size=2),
        ),
        max_size=3,
        unique_by=lambda arm: arm.name,
    ),
    st.lists(st.builds(Workload, category=st.none() | names), min_size=1, max_size=2, unique_by=lambda w: w.name),
    st.lists(loads, min_size=1, max_size=3, unique_by=lambda load: load.name),
    repeats=st.integers(1, 5),
    order=st.sampled_from(["interleaved", "fewest_launches"]),
    sampling=st.builds(Sampling, temperature=st.floats(0, 2)),
    slo=st.builds(Slo, ttft_ms=st.none() | positive),
    price_usd_per_hour=st.none() | positive,
)


@given(studies)
def test_a_study_survives_toml_and_json_unchanged(original: Study) -> None:
    assert study_from_toml(study_to_toml(original)) == original
    assert study_from_json(original.model_dump_json()) == original


@given(studies)
def test_the_digest_depends_on_the_content_alone(original: Study) -> None:
    assert study_from_toml(study_to_toml(original)).digest() == original.digest()
    assert original.model_copy(update={"repeats": original.repeats + 1}).digest() != original.digest()


def test_the_only_arm_without_speculation_is_the_baseline() -> None:
    assert study().baseline.name == "no draft"


def test_a_marked_arm_is_the_baseline_even_if_it_speculates() -> None:
    arms = study_dict()["arms"]
    arms[1]["baseline"] = True
    assert study(arms=arms).baseline.name == "draft"


@pytest.mark.parametrize("rate", ["inf", math.inf, None])
def test_an_infinite_rate_is_a_closed_loop(rate: object) -> None:
    load = Load.model_validate({"max_concurrency": 1, "num_prompts": 2, "request_rate_rps": rate})
    assert load.request_rate_rps is None


@pytest.mark.parametrize(("requests", "tokens"), [(1, 3), (4, 3), (5, 3), (6, 1), (9, 0), (600, 0)])
def test_a_range_of_a_schedule_holds_until_the_next_one_begins(requests: int, tokens: int) -> None:
    ranges = [[1, 4, 3], [6, 8, 1], [9, 512, 0]]
    scheduled = Speculation(method="ngram", num_speculative_tokens=3, options={SCHEDULE: ranges})
    assert scheduled.scheduled_tokens(requests) == tokens


@pytest.mark.parametrize("options", [{}, {SCHEDULE: "by feeling"}, {SCHEDULE: [[1, 2], 3]}, {SCHEDULE: []}])
def test_without_a_schedule_that_can_be_read_nothing_is_known_of_it(options: dict[str, JsonValue]) -> None:
    assert Speculation(method="ngram", num_speculative_tokens=3, options=options).scheduled_tokens(1) is None


def test_a_tuning_survives_toml_and_its_drafts_get_the_numbers_of_tokens() -> None:
    tuned = study(tune={"drafted_tokens": [4, 1, 4], "budget_minutes": 30})
    assert study_from_toml(study_to_toml(tuned)) == tuned
    assert tuned.tune is not None
    assert tuned.tune.drafted_tokens == (1, 4)
    (draft,) = drafts(tuned.arms, tuned.tune)
    arms = [draft.with_tokens(k) for k in tuned.tune.drafted_tokens]
    assert [arm.name for arm in arms] == ["draft k=1", "draft k=4"]
    assert [arm.speculation and arm.speculation.num_speculative_tokens for arm in arms] == [1, 4]


@pytest.mark.parametrize("name", ["EAGLE-3, k=3", "EAGLE-3 k=3", "EAGLE-3 k = 12", "EAGLE-3"])
def test_a_drafts_name_does_not_say_how_many_tokens(name: str) -> None:
    arms = (Arm(name=name, speculation=Speculation(method="ngram", num_speculative_tokens=3)),)
    (draft,) = drafts(arms, Tune())
    assert draft.name == "EAGLE-3"
    scheduled = draft.scheduled([(1, 4, 3), (5, 512, 0)])
    assert scheduled.name == "EAGLE-3 scheduled"
    assert scheduled.speculation is not None
    assert scheduled.speculation.num_speculative_tokens == 3
    assert [scheduled.speculation.scheduled_tokens(load) for load in (1, 8)] == [3, 0]
