"""Measures a schedule's steps in a simulated world, as a worker would."""

from __future__ import annotations

import math
from collections.abc import Callable

from lab.schedule import End, Outcome, Schedule, Step
from lab.study.plan import PlannedRun

#: The logarithm of what a run measures, or None if it fails.
World = Callable[[PlannedRun], float | None]
RUN_S, START_S = 10.0, 30.0


def outcome_of(run: PlannedRun, launch_index: int, measured: float | None) -> Outcome:
    if measured is None:
        return Outcome(run, launch_index, is_valid=False, error="it failed", engine_start_s=START_S)
    return Outcome(
        run,
        launch_index,
        is_valid=True,
        metrics={"output_tok_per_s": 100 * math.exp(measured)},
        engine_start_s=START_S,
        took_s=RUN_S,
    )


def measured(schedule: Schedule, world: World, outcomes: list[Outcome] | None = None) -> tuple[list[Step], End]:
    """Measure until the schedule ends; `outcomes` are extended."""
    outcomes = [] if outcomes is None else outcomes
    steps = []
    while isinstance(step := schedule.next(outcomes), Step):
        steps.append(step)
        outcomes += [outcome_of(run, step.launch.index, world(run)) for run in step.launch.runs]
    return steps, step
