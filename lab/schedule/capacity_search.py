"""The schedule of a study with searches for capacities: trials follow each other on one engine start of their arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lab.capacity.attainment import Observation
from lab.capacity.result import capacity_of_repeat, observation
from lab.capacity.search import Ask, next_trial
from lab.schedule.schedule import End, Outcome, Step
from lab.study import Load, Study
from lab.study.plan import Launch, PlannedRun, plan, trial_run
from lab.study.study import MOST_TRIALS

#: A search whose trials fail or are invalid so often in one repeat is given up there.
MOST_UNUSABLE = 3


class CapacitySearch:
    """The launches of the plan; within a launch its ordinary runs first, then one search after the other."""

    def __init__(self, study: Study) -> None:
        self._study, self._launches = study, plan(study)

    def next(self, outcomes: Sequence[Outcome]) -> Step | End:
        done = list(outcomes)
        for index, launch in enumerate(self._launches):
            if (step := self._in_launch(launch, done)) is not None:
                return replace(step, later=(*step.later, *self._launches[index + 1 :]))
        return End("complete")

    def _in_launch(self, launch: Launch, outcomes: Sequence[Outcome]) -> Step | None:
        done = {outcome.run.names for outcome in outcomes}
        ordinary = tuple(run for run in launch.runs if run.trial is None)
        searching = tuple(run for run in launch.runs if run.trial is not None)
        if any(run.names not in done for run in ordinary):
            return Step(replace(launch, runs=ordinary), _continued(launch, searching), later_is_certain=False)
        for index, search in enumerate(_searches(searching)):
            tried = [outcome for outcome in outcomes if _belongs(outcome.run, search)]
            if (trial := self._next_trial(search, tried)) is not None:
                own = sum(outcome.run.repeat == search.repeat for outcome in tried)
                left = searching[index * MOST_TRIALS + own + 1 :]
                return Step(replace(launch, runs=(trial,)), _continued(launch, left), False, _standing(search, tried))
        return None

    def _next_trial(self, search: PlannedRun, tried: Sequence[Outcome]) -> PlannedRun | None:
        """Return the trial that follows those of the same search; None once it has ended in this repeat."""
        own = [outcome for outcome in tried if outcome.run.repeat == search.repeat]
        usable = [trial for outcome in tried if (trial := _observed(outcome, search.load)) is not None]
        if len(own) - sum(trial.repeat == search.repeat for trial in usable) >= MOST_UNUSABLE:
            return None
        decision = next_trial(usable, search.load, search.repeat, self._study.repeats)
        return trial_run(self._study, search, len(own), decision.load) if isinstance(decision, Ask) else None


def _continued(launch: Launch, runs: tuple[PlannedRun, ...]) -> tuple[Launch, ...]:
    return (replace(launch, runs=runs),) if runs else ()


def _searches(trials: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return the searches of these trials, MOST_TRIALS of each, as runs of the search's own load."""
    first_trials = [(run, run.trial) for run in trials[::MOST_TRIALS]]
    return [replace(run, load=trial.search, trial=None) for run, trial in first_trials if trial is not None]


def _belongs(run: PlannedRun, search: PlannedRun) -> bool:
    """Return whether the run is a trial of the search, in any repeat."""
    named = (run.arm.name, run.workload.name, None if run.trial is None else run.trial.search.name)
    return named == (search.arm.name, search.workload.name, search.load.name)


def _observed(outcome: Outcome, search: Load) -> Observation | None:
    """Return a trial's observation; None if it failed or is invalid."""
    usable = outcome.is_valid and outcome.error is None
    return observation(search, outcome.run.load, outcome.run.repeat, outcome.metrics) if usable else None


def _standing(search: PlannedRun, tried: Sequence[Outcome]) -> str:
    """Describe what is known so far about the capacity in this repeat."""
    trials = [trial for outcome in tried if (trial := _observed(outcome, search.load)) is not None]
    own = sum(trial.repeat == search.repeat for trial in trials)
    if not own:
        return ""
    capacity = capacity_of_repeat(trials, search.load, search.repeat)
    return f"{search.arm.name}, {search.workload.name}: capacity {capacity.words(search.load)} after {own} trials"
