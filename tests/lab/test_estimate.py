"""How long a study takes, by what was measured and by assumptions where nothing was."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given

from lab.estimate import History, PastRuns, estimate
from lab.study import Load, Study
from lab.study.plan import WITH_GPU, WITHOUT_GPU, PlannedRun, estimate_s, paced_s, plan
from lab.study.session_length import SessionLength
from tests.lab.studies import study
from tests.lab.study.generated import studies

#: Of the small study's baseline: 4 prompts of 16 tokens, one after the other, in 8 s.
PAST = PastRuns(
    engine="vllm",
    method="none",
    num_speculative_tokens=None,
    dataset="reference",
    output_tokens=16,
    pattern="c1-n4",
    concurrency=1,
    num_prompts=4,
    closed_loop=True,
    requests=4,
    run_s=8.0,
    engine_start_s=20.0,
)


#: Of sessions with three turns and a wait of 2 s before the later ones.
LENGTH = SessionLength(turns=3, waits_s=4.0)


def past(**changes: object) -> PastRuns:
    return dataclasses.replace(PAST, **changes)  # type: ignore[arg-type]  # tests give fitting values


def first_run(**changes: object) -> PlannedRun:
    """Of the baseline, under the first load."""
    return plan(study(**changes))[0].runs[0]


@given(studies)
def test_without_history_the_assumptions_answer(planned: Study) -> None:
    launches = plan(planned)
    forecast = estimate(launches, History())
    assert (forecast.launches, forecast.runs) == (len(launches), sum(len(launch.runs) for launch in launches))
    assert (forecast.launches_from_history, forecast.runs_from_history) == (0, 0)
    assert forecast.seconds == pytest.approx(estimate_s(launches))
    assert forecast.basis == (
        "no such run of this target was measured on this hardware yet: a guess by the speed of the reference pair on "
        "two cores"
    )


def test_the_same_cell_is_answered_by_what_it_took() -> None:
    assert History([PAST, past(run_s=10.0), past(run_s=90.0)]).run_s(first_run()) == 10.0


def test_another_length_on_the_same_arm_and_concurrency_is_answered_by_its_pace() -> None:
    longer = first_run(workloads=[{"dataset": "story", "output_tokens": 64}])
    assert History([PAST]).run_s(longer) == pytest.approx(4 * 8.0)


@pytest.mark.parametrize(
    "other", [past(concurrency=2), past(engine="sglang"), past(method="ngram", num_speculative_tokens=3)]
)
def test_another_arm_or_concurrency_says_nothing(other: PastRuns) -> None:
    assert History([other]).run_s(first_run()) is None


def test_runs_that_waited_for_arrivals_say_nothing_of_the_pace() -> None:
    longer = first_run(workloads=[{"dataset": "story", "output_tokens": 64}])
    assert History([past(closed_loop=False)]).run_s(longer) is None


def test_a_run_ended_by_its_duration_has_the_pace_of_what_was_sent() -> None:
    cut = past(num_prompts=1000, requests=2, pattern="other")
    assert History([cut]).run_s(first_run()) == pytest.approx(2 * 8.0)


def test_a_session_is_answered_by_sessions_and_its_turns_are_requests() -> None:
    sessions = {"output_tokens": 16, "sessions": {"think": "fixed", "think_s": 2.0}}
    once, twice = (first_run(workloads=[sessions | changes]) for changes in ({}, {"output_tokens": 32}))
    replayed = past(sessions="sessions-own-2s", requests=12, run_s=60.0)
    assert History([PAST]).run_s(once, LENGTH) == pytest.approx(4 * (3 * 2.0 + 4.0))  # the waits are added to the pace
    assert History([PAST, replayed]).run_s(once, LENGTH) == 60.0
    assert History([replayed]).run_s(twice, LENGTH) == pytest.approx(120.0)  # its pace has the waits in it
    assert History([replayed]).run_s(first_run(workloads=[{"output_tokens": 64}])) is None
    launches = plan(study(workloads=[sessions], loads=[{"max_concurrency": 1, "num_prompts": 4}]))
    assert estimate(launches, History(), length_of=lambda _: LENGTH).requests == 2 * 4 * 3


def test_an_engine_start_is_that_of_the_arm_or_else_of_the_engine() -> None:
    plain, drafted = (launch.arms[0] for launch in plan(study()))
    history = History([PAST])
    assert (history.start_s(plain), history.start_s(drafted)) == (20.0, 20.0)
    both = History([PAST, past(method="draft_model", num_speculative_tokens=3, engine_start_s=50.0)])
    assert both.start_s(drafted) == 50.0
    assert history.start_s(plain.model_copy(update={"engine": "sglang"})) is None


def test_an_estimate_says_how_much_of_it_was_measured() -> None:
    some = estimate(plan(study()), History([PAST]), hardware="H200")
    assert (some.launches_from_history, some.runs_from_history, some.runs) == (2, 1, 4)
    assert some.basis == (
        "1 of 4 runs from earlier ones of this target on H200, the others are a guess by the speed of the reference "
        "pair on two cores"
    )
    one_load = study(loads=[{"max_concurrency": 1, "num_prompts": 4}], arms=[{"name": "plain"}])
    whole = estimate(plan(one_load), History([PAST]))
    assert (whole.seconds, whole.basis) == (28.0, "from earlier runs of this target on this hardware")


def test_a_gpu_is_assumed_to_lose_less_by_concurrency() -> None:
    load = Load(max_concurrency=32, num_prompts=256)
    run = dataclasses.replace(first_run(), load=load)
    assert WITH_GPU.run_s(run) < WITHOUT_GPU.run_s(run) / 5


def test_a_duration_bounds_the_time_and_a_ramp_takes_its_own() -> None:
    run = first_run()
    timed = Load(max_concurrency=1, num_prompts=1_000_000, duration_s=60)
    assert 60 <= paced_s(dataclasses.replace(run, load=timed), token_s=0.025) <= 61
    ramp = Load(max_concurrency=4, num_prompts=90, arrivals="ramp", request_rate_rps=1, ramp_to_rps=2)
    assert paced_s(dataclasses.replace(run, load=ramp), token_s=0.025) == 60
