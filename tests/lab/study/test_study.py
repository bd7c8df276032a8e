"""What a study means."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from pydantic import JsonValue

from lab.errors import StudyError
from lab.study import Arm, Load, Sessions, Speculation, Study, Tune, Workload
from lab.study.arm import SCHEDULE
from lab.study.parsing import study_from_dict, study_from_json, study_from_toml, study_to_toml
from lab.study.plan import plan
from lab.study.tune import drafts
from tests.lab.studies import study, study_dict
from tests.lab.study.generated import studies


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


def test_runs_are_planned_unless_the_study_decides_on_its_way() -> None:
    assert study().runs_are_planned
    searching = {"find": "rate", "max_concurrency": 6, "num_prompts": 40}
    assert not study(repeats="until decided", budget="45 min").runs_are_planned
    assert not study(tune={"drafted_tokens": [1, 3]}).runs_are_planned
    assert not study(loads=[searching], slo={"ttft_ms": 500}).runs_are_planned


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


def test_a_study_of_too_many_runs_is_refused_unplanned() -> None:
    arms = [{"name": f"arm {number}", "baseline": number == 0} for number in range(50)]
    workloads = [{"category": "code", "output_tokens": 16 + number} for number in range(50)]
    loads = [{"max_concurrency": 1 + number, "num_prompts": 64} for number in range(50)]
    with pytest.raises(StudyError, match=r"50 arms x 50 workloads x 50 loads x 100 repeats are up to 12,500,000 runs"):
        study_from_dict(study_dict(arms=arms, workloads=workloads, loads=loads, repeats=100))
    with pytest.raises(StudyError, match="at most 500"):
        study_from_dict(study_dict(loads=[{"max_concurrency": 1, "num_prompts": 1 + number} for number in range(501)]))


def test_a_search_counts_with_all_its_trials() -> None:
    search = {"find": "rate", "max_concurrency": 8, "num_prompts": 100}
    searching = study(arms=[{"name": "plain"}], loads=[search], repeats=3, slo={"ttft_ms": 100})
    assert (searching.most_runs, sum(len(launch.runs) for launch in plan(searching))) == (36, 36)


@pytest.mark.parametrize(
    ("sessions", "name"),
    [
        (Sessions(), "mt_bench/all/sessions-own/64"),
        (Sessions(answers="recorded", max_turns=3, think="none"), "mt_bench/all/sessions-recorded-3-none/64"),
        (Sessions(think="fixed", think_s=2.0), "mt_bench/all/sessions-own-2s/64"),
        (Sessions(think="exponential", think_s=2.0), "mt_bench/all/sessions-own-exponential-2s/64"),
    ],
)
def test_workloads_that_replay_other_sessions_have_other_names(sessions: Sessions, name: str) -> None:
    assert Workload(dataset="mt_bench", sessions=sessions).name == name


def test_a_think_time_belongs_to_the_kinds_that_need_one() -> None:
    for wrong in ({"think": "fixed"}, {"think_s": 2.0}):
        with pytest.raises(ValueError, match="think_s belongs to think"):
            Sessions.model_validate(wrong)
