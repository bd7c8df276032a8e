"""Searches of a simulated server: the schedule of a real study, asked as a worker asks it."""

from __future__ import annotations

import numpy as np

from lab.capacity.result import Capacity, capacities, observation
from lab.schedule import Outcome, Step, schedule_of
from lab.study import Study
from tests.lab.capacity.queues import Queue
from tests.lab.studies import study


def searching(queue: Queue, repeats: int, **load: object) -> Study:
    """A study of one arm that searches for the rate at which `queue` keeps its SLO."""
    search = {"find": "rate", "max_concurrency": queue.requests, "num_prompts": queue.requests, **load}
    return study(arms=[{"name": "plain"}], loads=[search], repeats=repeats, slo={"ttft_ms": 1000 * queue.bound_s})


def outcomes_of(queue: Queue, seed: int, study: Study) -> list[Outcome]:
    """Measure what the schedule asks for until it ends."""
    rng = np.random.default_rng(seed)
    speeds = np.exp(queue.between * rng.standard_normal(study.repeats))
    schedule, outcomes = schedule_of(study), list[Outcome]()
    while isinstance(step := schedule.next(outcomes), Step):
        (run,) = step.launch.runs
        within = int(queue.within(rng, run.load.request_rate_rps or 0.0, 1, speeds[run.repeat])[0])
        counts = {"requests_completed": queue.requests, "requests_failed": 0, "requests_within_slo": within}
        outcomes.append(Outcome(run, step.launch.index, is_valid=True, metrics=dict(counts)))
    return outcomes


def capacity_of(outcomes: list[Outcome], study: Study) -> Capacity:
    """The capacity over all repeats that these outcomes show."""
    (search,) = study.loads
    observations = [observation(search, outcome.run.load, outcome.run.repeat, outcome.metrics) for outcome in outcomes]
    return capacities([outcome for outcome in observations if outcome is not None], search)[-1]
