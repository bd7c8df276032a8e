"""How long a study takes, by what was measured and by assumptions where nothing was."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given

from lab.estimate import WITH_GPU, WITHOUT_GPU, History, PastRuns, estimate, paced_s
from lab.study import Arm, Load, Study, Workload
from lab.study.plan import PlannedRun, engine_starts, plan
from lab.study.session_length import ASSUMED_TURNS, SessionLength
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
    assert forecast.basis == (
        "no such run of this target was measured on this hardware yet: a rough estimate, scaled from the reference "
        "pair on two cores"
    )


def test_the_same_cell_is_answered_by_what_it_took() -> None:
    assert History([PAST, past(run_s=10.0), past(run_s=90.0)]).run_s(first_run()) == 10.0


def test_another_length_on_the_same_arm_has_its_pace() -> None:
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


def test_a_run_ended_early_has_the_pace_of_what_was_sent() -> None:
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


def test_an_engine_start_is_the_arms_or_else_the_engines() -> None:
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
        "1 of 4 runs from earlier ones of this target on H200, the others are a rough estimate, scaled from the "
        "reference pair on two cores"
    )
    one_load = study(loads=[{"max_concurrency": 1, "num_prompts": 4}], arms=[{"name": "plain"}])
    whole = estimate(plan(one_load), History([PAST]))
    assert (whole.seconds, whole.basis) == (28.0, "from earlier runs of this target on this hardware")


def run_of(load: Load, **workload: Any) -> PlannedRun:
    return PlannedRun(Arm(name="a"), Workload(**{"output_tokens": 64, **workload}), load, 0)


@pytest.mark.parametrize(
    ("load", "expected_s"),
    [
        (Load(max_concurrency=4, num_prompts=8), 2 * 6.4 + 8 * 0.5),  # two waves of answers, eight prompts
        (Load(max_concurrency=4, num_prompts=9), 3 * 6.4 + 9 * 0.5),
        (Load(max_concurrency=4, num_prompts=8, duration_s=10), 10 + 6.4),  # what runs at its end is answered
        (Load(max_concurrency=4, num_prompts=8, duration_s=20), 2 * 6.4 + 8 * 0.5),
        (Load(max_concurrency=4, num_prompts=8, request_rate_rps=0.4), 20.0),  # the arrivals are slower
        (Load(max_concurrency=4, num_prompts=8, request_rate_rps=4), 2 * 6.4 + 8 * 0.5),
        (Load(max_concurrency=4, num_prompts=90, arrivals="ramp", request_rate_rps=0.1, ramp_to_rps=0.3), 450.0),
        (Load(max_concurrency=4, num_prompts=8, arrivals="trace"), 2 * 6.4 + 8 * 0.5),
    ],
)
def test_a_load_takes_its_waves_or_its_arrivals(load: Load, expected_s: float) -> None:
    assert paced_s(run_of(load), token_s=0.1, prompt_s=0.5) == pytest.approx(expected_s)
    assert paced_s(run_of(Load(max_concurrency=1, num_prompts=1)), token_s=0.1) == pytest.approx(6.4)


def test_a_session_takes_its_stream_for_all_of_its_turns_and_waits() -> None:
    run = run_of(Load(max_concurrency=4, num_prompts=9), sessions={"think": "fixed", "think_s": 2.0, "max_turns": 5})
    five = SessionLength(turns=5, waits_s=8.0)
    assert paced_s(run, 0.1, 0.5, five) == pytest.approx(3 * (5 * 6.4 + 8.0) + 9 * 5 * 0.5)
    assert paced_s(run, 0.1) == pytest.approx(3 * (ASSUMED_TURNS * 6.4 + (ASSUMED_TURNS - 1) * 2.0))


def test_an_assumed_run_warms_up_and_slows_with_each_stream() -> None:
    alone = run_of(Load(max_concurrency=1, num_prompts=4))
    assert WITHOUT_GPU.run_s(alone) == pytest.approx(10 * 0.025 + 0.2 + 4 * 64 * 0.025 + 4 * 0.2)
    many = run_of(Load(max_concurrency=6, num_prompts=6), input_tokens=1000, output_tokens=8, dataset="random")
    assert WITHOUT_GPU.run_s(many) == pytest.approx(8 * 0.05 + 6 * 1.0 + 8 * 0.05 + 6 * 1.0)
    assert WITH_GPU.run_s(many) == pytest.approx(2 * (8 * 0.006 * 1.3 + 6 * 0.1))


def test_a_study_is_assumed_to_take_its_starts_and_its_runs() -> None:
    launches = plan(study(repeats=2))
    assert len(engine_starts(launches)) == 4
    assert [arm.name for arm in engine_starts([*launches[:1], *launches])] == [
        launch.arms[0].name for launch in launches
    ]
    runs_s = sum(WITHOUT_GPU.run_s(run) for launch in launches for run in launch.runs)
    assert estimate(launches, History()).seconds == pytest.approx(4 * 35 + runs_s)


def test_a_running_server_is_not_started() -> None:
    server = {"name": "ours", "engine": "endpoint", "server": {"base_url": "http://127.0.0.1:8000"}}
    forecast = estimate(plan(study(arms=[{**server, "baseline": True}, {**server, "name": "theirs"}])), History())
    assert (forecast.launches, forecast.starts_s) == (0, 0.0)


@pytest.mark.parametrize(
    ("budget_repeats", "basis"),
    [
        (3.5, "stops when decided; about 3 of at most 8 repeats fit into its budget; no such run of this target was"),
        (100.0, "stops when decided; about 8 of at most 8 repeats fit into its budget; no such run of this target was"),
        (1.5, ("stops when its budget is spent, which is too short for the 2 repeats that a verdict takes: allow at "
         "least 3 min; no such run")),
    ],
)  # fmt: skip
def test_what_fits_into_the_budget_is_said_with_how_rough_that_is(budget_repeats: float, basis: str) -> None:
    whole = estimate(plan(study(repeats=8)), History())
    forecast = whole.within(budget_repeats * whole.seconds / 8, 8)
    assert forecast.basis.startswith(basis)
    assert "a rough estimate" in forecast.basis
    assert forecast.wall_s == pytest.approx(min(budget_repeats / 8, 1) * whole.seconds)
