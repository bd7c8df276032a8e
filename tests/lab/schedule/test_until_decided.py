"""What a study that measures until decided measures next, in worlds whose truth is known."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from lab.schedule import End, Outcome, Step, schedule_of
from lab.schedule.until_decided import spent_s
from lab.study import Study
from lab.study.parsing import study_from_dict
from lab.study.plan import PlannedRun
from tests.lab.schedule.measuring import RUN_S, START_S, World, measured, outcome_of

ARMS = ("plain", "good", "bad", "same")
WORKLOADS, LOADS = ("code", "prose"), (1, 4)


def until_decided(budget: str = "10 h", arms: tuple[str, ...] = ARMS, **changes: Any) -> Study:
    every = [{"name": name, "baseline": name == "plain", "flags": {"of": name}} for name in arms]
    return study_of(every, budget=budget, **changes)


def study_of(arms: list[dict[str, Any]], **changes: Any) -> Study:
    data = {
        "name": "until decided",
        "target": "target",
        "arms": arms,
        "workloads": [{"dataset": "reference", "category": category} for category in WORKLOADS],
        "loads": [{"max_concurrency": streams, "num_prompts": 8} for streams in LOADS],
        "repeats": "until decided",
        "budget": "10 h",
    }
    return study_from_dict(data | changes)


def world(noise: float = 0.01, *, turned: bool = False, **effects: float) -> World:
    """Each arm's ratio to the baseline by its name; runs differ by `noise`, repeats by more.

    `turned`: for prose it is the inverse, so that no arm beats another everywhere.
    """

    def run_of(run: PlannedRun) -> float:
        own = random.Random("/".join(map(str, run.names)))  # noqa: S311 - a simulation
        common = random.Random(f"block {run.repeat}").gauss(0, 0.05)  # noqa: S311
        effect = math.log(effects.get(run.arm.name, 1.0))
        return common + own.gauss(0, noise) + (-effect if turned and run.workload.category == "prose" else effect)

    return run_of


def measured_places(steps: list[Step]) -> set[tuple[str, str, str, int]]:
    return {run.names for step in steps for run in step.launch.runs}


def repeats_of(steps: list[Step], arm: str) -> int:
    return 1 + max(run.repeat for step in steps for run in step.launch.runs if run.arm.name == arm)


def test_two_or_three_repeats_decide_clear_effects_and_end_the_study() -> None:
    steps, end = measured(schedule_of(until_decided(arms=("plain", "good", "bad"))), world(good=1.5, bad=0.7))
    assert end == End("decided", "8 of 8 comparisons decided.")
    assert 2 <= repeats_of(steps, "good") <= 3
    assert steps[-1].launch.index == len(steps) - 1


def test_decided_cells_are_measured_no_more_nor_their_baseline() -> None:
    study = until_decided(arms=("plain", "good", "same"))
    steps, _ = measured(schedule_of(study), world(good=1.5, same=1.02, turned=True))
    assert repeats_of(steps, "good") < repeats_of(steps, "same")
    last = steps[-1].launch.runs[0].repeat
    open_places = {run.names[1:3] for step in steps for run in step.launch.runs if run.names[::3] == ("same", last)}
    base_places = {run.names[1:3] for step in steps for run in step.launch.runs if run.names[::3] == ("plain", last)}
    assert base_places == open_places


def test_arms_alternate_a_b_b_a_and_each_run_comes_once() -> None:
    steps, _ = measured(schedule_of(until_decided(arms=("plain", "same"))), world(noise=0.03))
    assert [step.launch.arms[0].name for step in steps[:4]] == ["plain", "same", "same", "plain"]
    runs = [run.names for step in steps for run in step.launch.runs]
    assert len(runs) == len(set(runs))


def test_side_by_side_a_launch_holds_the_arms_of_interest() -> None:
    study = until_decided(arms=("plain", "good", "same"), order="side_by_side")
    steps, _ = measured(schedule_of(study), world(good=1.5, turned=True))
    names = [[arm.name for arm in step.launch.arms] for step in steps]
    assert names[:2] == [["plain", "good", "same"]] * 2
    assert names[-1] == ["plain", "same"]
    assert [run.repeat for run in steps[1].launch.runs[:: len(WORKLOADS) * len(LOADS)]] == [2, 2, 2, 3, 3, 3]


def test_a_restarted_worker_comes_to_the_same_steps_whatever_it_had_measured() -> None:
    study, truth = until_decided(), world(good=1.3, bad=0.8, noise=0.02)
    outcomes: list[Outcome] = []
    steps, end = measured(schedule_of(study), truth, outcomes)
    for done in range(0, len(outcomes), 7):
        again, same_end = measured(schedule_of(study), truth, outcomes[: _whole_steps(steps, done)])
        assert again == steps[len(steps) - len(again) :]
        assert same_end == end


def _whole_steps(steps: list[Step], runs: int) -> int:
    """The runs of as many whole steps as `runs` covers."""
    whole = 0
    for step in steps:
        if whole + len(step.launch.runs) > runs:
            break
        whole += len(step.launch.runs)
    return whole


@pytest.mark.parametrize(("order", "minutes"), [("interleaved", 6), ("side_by_side", 9)])
def test_the_budget_holds_and_the_end_says_how_much_is_decided(order: str, minutes: int) -> None:
    outcomes: list[Outcome] = []
    study = until_decided(f"{minutes} min", arms=("plain", "same"), order=order)
    steps, end = measured(schedule_of(study), world(same=1.02), outcomes)
    assert end.reason == "budget spent"
    assert end.sentence.endswith(" of 4 comparisons decided.")
    assert spent_s(outcomes) <= 60 * minutes
    assert all(step.most_s is not None and 0 <= step.most_s <= 60 * minutes for step in steps)


def test_a_budget_that_does_not_hold_two_repeats_ends_after_the_first() -> None:
    outcomes: list[Outcome] = []
    _, end = measured(schedule_of(until_decided("4 min", arms=("plain", "same"))), world(), outcomes)
    assert end == End("budget spent", "The budget does not hold the 2 repeats of the first look: 5 min.")
    assert {outcome.run.repeat for outcome in outcomes} == {0}


def test_a_difference_that_no_number_of_repeats_shows_is_dropped() -> None:
    steps, end = measured(schedule_of(until_decided(arms=("plain", "same"))), world(noise=0.2))
    assert end.reason == "hopeless"
    assert repeats_of(steps, "same") <= 12


def test_time_goes_where_a_verdict_is_likely() -> None:
    """One arm is faster by 4 % and the other by nothing; runs differ by 2 %."""
    steps, end = measured(schedule_of(until_decided(arms=("plain", "good", "same"))), world(good=1.04, noise=0.02))
    assert end.reason == "hopeless"
    assert repeats_of(steps, "same") < repeats_of(steps, "good")
    measured_runs = [run for step in steps for run in step.launch.runs if run.arm.name == "same"]
    assert len(measured_runs) <= 6 * len(WORKLOADS) * len(LOADS)


def test_a_study_whose_durations_are_unknown_goes_on_all_the_same() -> None:
    study, truth, outcomes = until_decided(arms=("plain", "good")), world(good=1.08, noise=0.02), list[Outcome]()
    schedule = schedule_of(study)
    while isinstance(step := schedule.next(outcomes), Step):
        known = [outcome_of(run, step.launch.index, truth(run)) for run in step.launch.runs]
        outcomes += [replace(outcome, took_s=None, engine_start_s=None) for outcome in known]
    assert step.reason == "decided"


def test_an_arm_that_another_beats_everywhere_is_dropped() -> None:
    """The third is hardly above the baseline, which would take long to show; the good one beats it clearly."""
    study = until_decided(arms=("plain", "good", "same"))
    steps, end = measured(schedule_of(study), world(good=1.8, same=1.01, noise=0.015))
    assert "'same' was dropped: 'good' is faster in every cell" in end.sentence
    assert repeats_of(steps, "same") <= 4
    assert end.reason == "decided"


def test_an_arm_that_never_runs_is_not_waited_for() -> None:
    truth = world(good=1.5)

    def broken(run: PlannedRun) -> float | None:
        return None if run.arm.name == "bad" else truth(run)

    steps, end = measured(schedule_of(until_decided(arms=("plain", "good", "bad"))), broken)
    assert end == End("hopeless", "4 of 8 comparisons decided; 4 have no valid runs to compare.")
    assert repeats_of(steps, "bad") == 3


def test_a_run_that_failed_once_is_made_up_for() -> None:
    truth = world(good=1.5)

    def once(run: PlannedRun) -> float | None:
        return None if (run.arm.name, run.repeat) == ("good", 0) else truth(run)

    _, end = measured(schedule_of(until_decided(arms=("plain", "good"))), once)
    assert end == End("decided", "4 of 4 comparisons decided.")


def test_the_standing_and_the_most_that_follows_are_said_with_each_step() -> None:
    steps, _ = measured(
        schedule_of(until_decided(arms=("plain", "good", "same"))), world(good=1.5, same=1.02, turned=True)
    )
    assert steps[0].standing == ""
    assert any("of 8 comparisons decided" in step.standing for step in steps)
    assert not any(step.later_is_certain for step in steps)
    most = len(ARMS[:3]) * len(WORKLOADS) * len(LOADS) * 12
    assert sum(len(launch.runs) for launch in (steps[0].launch, *steps[0].later)) == most


def test_the_time_spent_counts_each_engine_start_once() -> None:
    (step, *_), _ = measured(schedule_of(until_decided(arms=("plain", "good"))), world(good=1.5))
    outcomes = [outcome_of(run, 0, 0.0) for run in step.launch.runs]
    assert spent_s(outcomes) == START_S + len(outcomes) * RUN_S


def test_an_arm_identical_to_the_baseline_is_a_control() -> None:
    arms: list[dict[str, Any]] = [{"name": name, "baseline": name == "plain"} for name in ("plain", "twin")]
    arms.append({"name": "good", "baseline": False, "flags": {"of": "good"}})
    steps, end = measured(schedule_of(study_of(arms)), world(good=1.5))
    assert end == End("decided", "4 of 4 comparisons decided.")
    assert repeats_of(steps, "twin") == 2
