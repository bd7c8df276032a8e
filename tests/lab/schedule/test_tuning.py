"""A tuning asks for launches until every load has its setting, and measures the schedule that it found."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import pytest

from lab.schedule import End, Outcome, Step, schedule_of
from lab.schedule.tuning import Tuning, result_of
from lab.study import Study
from lab.study.arm import SCHEDULE
from lab.study.plan import PlannedRun, plan
from lab.tuning.race import LEAST_BLOCKS
from lab.tuning.report import Report, report
from lab.tuning.setting import NONE
from tests.lab.studies import study
from tests.lab.tuning.worlds import SPACE, World

LOOK_UP = {"method": "ngram", "num_speculative_tokens": 5}
HEAD = {"method": "eagle3", "model": "some/head", "num_speculative_tokens": 2}
DRAFT = {"method": "draft_model", "model": "some/model", "num_speculative_tokens": 3}
ARMS: list[dict[str, Any]] = [
    {"name": "no draft"},
    {"name": "draft model, k=3", "speculation": DRAFT},
    {"name": "head", "speculation": HEAD},
    {"name": "look-up k=5", "speculation": LOOK_UP},
]
LOADS = [{"max_concurrency": load, "num_prompts": 2 * load} for load in SPACE.loads]


def tuning(arms: Sequence[dict[str, Any]] = ARMS, **tune: Any) -> Study:
    return study(arms=list(arms), loads=LOADS, tune=tune)


class Machine:
    """Measures launches in a simulated world; a scheduled arm is as fast as the setting it has at that load."""

    def __init__(self, world: World, study: Study) -> None:
        self.world, self.settings = world, Tuning(study).settings
        self.asked, self.outcomes, self.steps = study, list[Outcome](), list[Step]()

    def measure(self, run: PlannedRun, launch_index: int) -> Outcome:
        load, speculation = run.load.max_concurrency, run.arm.speculation
        setting = self.settings.get(run.arm.name)
        if setting is None and speculation is not None and (k := speculation.scheduled_tokens(load)) is not None:
            setting = self.settings.get(run.arm.name.replace("scheduled", f"k={k}"), NONE)
        setting = setting or NONE
        noise = float(self.world._rng.normal(0, 0.005))
        accepted = self.world.accepted.get(setting.draft, ())[: setting.k]
        metrics: dict[str, Any] = {"output_tok_per_s": 100 * self.world.speeds[setting, load] * math.exp(noise)}
        metrics |= {"acceptance_per_position": accepted} if accepted else {}
        return Outcome(run, launch_index, is_valid=True, metrics=metrics, engine_start_s=20.0, took_s=10.0)

    def run(self, most: int = 200) -> End:
        schedule = schedule_of(self.asked)
        for _ in range(most):
            step = schedule.next(self.outcomes)
            if isinstance(step, End):
                return step
            self.steps.append(step)
            self.outcomes += [self.measure(run, step.launch.index) for run in step.launch.runs]
        raise AssertionError("it does not end")

    def report(self) -> Report:
        results = {outcome.run.key(""): result_of(outcome) for outcome in self.outcomes}
        tuning_report = report(self.asked, lambda run: results.get(run.key("")))
        assert tuning_report is not None
        return tuning_report


@functools.cache
def tuned(seed: int) -> Machine:
    """A tuning that has ended; tests only look at it."""
    machine = Machine(World(seed), tuning())
    assert machine.run().reason in ("decided", "most repeats", "most runs")
    return machine


@pytest.mark.parametrize("seed", [1, 2])
def test_every_step_has_new_runs_and_a_new_start(seed: int) -> None:
    machine = tuned(seed)
    keys = [outcome.run.key("") for outcome in machine.outcomes]
    assert len(set(keys)) == len(keys)
    assert [step.launch.index for step in machine.steps] == list(range(len(machine.steps)))


def test_what_may_follow_is_never_less_than_what_does() -> None:
    machine, steps = tuned(1), tuned(1).steps
    total, done = len(machine.outcomes), 0
    for step in steps:
        done += len(step.launch.runs)
        following = done + sum(len(launch.runs) for launch in step.later)
        assert following == total if step.later_is_certain else following >= total
    assert steps[-1].later_is_certain
    assert len({launch.index for launch in steps[0].later}) == len(steps[0].later)


def test_the_schedule_is_measured_beside_no_speculation_and_one_setting() -> None:
    world = World(2)
    beside = {"name": "adaptive", "speculation": HEAD | {"options": {"enable_adaptive_verification": True}}}
    machine = Machine(world, tuning([*ARMS, beside], beside=["adaptive"]))
    machine.run()
    tuning_report = machine.report()
    assert tuning_report.scheduled is not None
    last = max(outcome.run.repeat for outcome in machine.outcomes)
    final = {outcome.run.arm.name for outcome in machine.outcomes if outcome.run.repeat == last}
    assert final == {"no draft", tuning_report.single.name, tuning_report.scheduled.name, "adaptive"}
    assert {measured.arm for measured in tuning_report.final} == final - {"no draft"}
    counts = [outcome.run.arm.name for outcome in machine.outcomes].count(tuning_report.scheduled.name)
    assert counts == LEAST_BLOCKS * len(SPACE.loads)


def test_the_report_says_for_each_load_what_is_fast_there() -> None:
    machine = tuned(2)
    world, tuning_report = machine.world, machine.report()
    assert [measured.load for measured in tuning_report.best] == list(SPACE.loads)
    for measured in tuning_report.best:
        setting = machine.settings[measured.arm]
        assert world.loss(setting, measured.load) <= 0.02
        if setting != NONE:
            true = world.speeds[setting, measured.load] / world.speeds[NONE, measured.load]
            assert measured.low is not None
            assert measured.high is not None
            assert measured.low * 0.98 <= true <= measured.high * 1.02
    assert tuning_report.ended == "decided"
    assert tuning_report.runs == len(machine.outcomes)


def test_drafting_nothing_has_a_cost_of_its_own_in_the_report() -> None:
    """At the greatest loads of this world speculation loses, and its schedule drafts nothing there."""
    tuning_report = tuned(5).report()
    assert tuning_report.scheduled is not None
    assert tuning_report.scheduled.speculation is not None
    assert tuning_report.scheduled.speculation.options[SCHEDULE] == [list(range_) for range_ in tuning_report.ranges]
    assert tuning_report.ranges[-1][2] == 0
    assert [measured.load for measured in tuning_report.cost_of_nothing] == [8, 16]
    assert all(measured.ratio == pytest.approx(1.0, abs=0.02) for measured in tuning_report.cost_of_nothing)


def test_everything_that_was_not_chosen_has_a_reason() -> None:
    tuning_report = tuned(5).report()
    assert len(tuning_report.tried) == len(SPACE.settings) * len(SPACE.loads)
    chosen = [(tried.arm, tried.load) for tried in tuning_report.tried if tried.fate == "chosen"]
    assert chosen == [(tried.arm, tried.load) for tried in tuning_report.best]
    assert all(
        tried.fate.startswith("not run") == (tried.runs == 0) for tried in tuning_report.tried if tried.fate != "chosen"
    )


def test_a_budget_ends_the_race_early_enough_to_measure_what_it_found() -> None:
    machine = Machine(World(4), tuning(budget_minutes=24))
    end = machine.run()
    starts = {outcome.launch_index for outcome in machine.outcomes}
    assert end.reason == "budget spent"
    assert 20 * len(starts) + 10 * len(machine.outcomes) <= 60 * 24
    assert machine.report().final


def test_a_plan_of_a_tuning_is_about_what_it_takes() -> None:
    planned = sum(len(launch.runs) for launch in plan(tuning()))
    taken = [len(tuned(seed).outcomes) for seed in range(3)]
    assert min(taken) * 0.8 <= planned <= max(taken) * 1.5


def test_nothing_is_reported_before_the_first_results() -> None:
    assert report(tuning(), lambda _run: None) is None
