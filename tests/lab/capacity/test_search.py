"""Searches for a capacity: brackets hold the truth, and end for a reason."""

from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.capacity.attainment import Observation
from lab.capacity.result import capacities
from lab.capacity.search import Ask, Found, next_trial
from lab.schedule import End, Outcome, Step, schedule_of
from lab.schedule.capacity_search import MOST_UNUSABLE
from lab.study import Load
from lab.study.study import MOST_TRIALS
from tests.lab.capacity.queues import QUEUES, Queue
from tests.lab.capacity.searches import capacity_of, outcomes_of, searching

#: A server that is never busy.
EASY = Queue(slots=64, service_s=0.01, cv=1.0, bound_s=1.0, requests=50)
#: Searches of each queue. `python -m benchmarks capacity` makes 200 in all.
_SEARCHES = 10
#: Where 95 % of the brackets hold the truth, fewer than so many of 40 do in one such test of a hundred.
_HELD = 34


def test_brackets_hold_the_truth_as_often_as_stated() -> None:
    held, trials = [], []
    for queue in QUEUES:
        search_study = searching(queue, repeats=2, find_from=queue.capacity / 3)
        for seed in range(_SEARCHES):
            outcomes = outcomes_of(queue, seed, search_study)
            capacity = capacity_of(outcomes, search_study)
            assert capacity.low is not None
            assert capacity.high is not None
            held.append(capacity.low <= queue.capacity <= capacity.high)
            trials.append(len(outcomes))
    assert sum(held) >= _HELD
    assert statistics.median(trials) <= 2 * MOST_TRIALS


def test_a_server_that_carries_everything_has_a_capacity_above_the_greatest_load() -> None:
    search_study = searching(EASY, repeats=2, find_from=1.0, find_to=4.0)
    capacity = capacity_of(outcomes_of(EASY, 0, search_study), search_study)
    assert (capacity.value, capacity.low, capacity.high) == (None, 4.0, None)
    assert capacity.words(search_study.loads[0]) == "above 4 requests/s"


def test_a_server_that_carries_nothing_has_a_capacity_below_the_smallest_load() -> None:
    search_study = searching(QUEUES[0], repeats=1, find_from=100.0)
    capacity = capacity_of(outcomes_of(QUEUES[0], 0, search_study), search_study)
    assert (capacity.value, capacity.low, capacity.high) == (None, None, 100.0)
    slow = Load(find="rate", max_concurrency=1, num_prompts=100, find_to=0.01)
    assert next_trial([Observation(0.01, 100, 0)] * 2, slow, 0, 1) == Found("below")


def test_a_later_repeat_begins_where_the_earlier_ones_ended() -> None:
    search_study = searching(QUEUES[2], repeats=2)
    outcomes = outcomes_of(QUEUES[2], 3, search_study)
    first = next(outcome.run.load for outcome in outcomes if outcome.run.repeat == 1)
    assert first.request_rate_rps == pytest.approx(QUEUES[2].capacity, rel=0.3)


def test_a_sharp_limit_of_concurrency_is_found_to_one_request() -> None:
    load = searching(EASY, repeats=1).loads[0].model_copy(update={"find": "concurrency", "max_concurrency": 64})
    observations: list[Observation] = []
    while isinstance(step := next_trial(observations, load, 0, 1), Ask):
        observations.append(Observation(step.load, 100, 100 if step.load <= 11 else 20))
    (_, capacity) = capacities(observations, load)
    assert capacity.value == 11
    assert 10 <= (capacity.low or 0) <= 11 <= (capacity.high or 0) <= 12
    assert len(observations) <= MOST_TRIALS


@given(st.lists(st.tuples(st.floats(0.5, 200), st.integers(0, 50), st.integers(0, 2)), min_size=1, max_size=12))
def test_whatever_trials_gave_the_next_load_lies_within_the_bounds(given_trials: list[tuple[float, int, int]]) -> None:
    (search,) = searching(EASY, repeats=3, find_from=0.5, find_to=200.0).loads
    observations = [Observation(load, 50, within, repeat) for load, within, repeat in given_trials]
    step = next_trial(observations, search, 2, 3)
    assert isinstance(step, Found) or 0.5 <= step.load <= 200.0
    for capacity in capacities(observations, search):
        bounds = [bound for bound in (capacity.low, capacity.value, capacity.high) if bound is not None]
        assert bounds == sorted(bounds)
        assert bounds


def test_failed_trials_are_tried_again_but_not_for_ever() -> None:
    search_study = searching(EASY, repeats=1)
    schedule, outcomes = schedule_of(search_study), list[Outcome]()
    while isinstance(step := schedule.next(outcomes), Step):
        outcomes += [Outcome(run, 0, is_valid=False, error="it failed") for run in step.launch.runs]
    assert len(outcomes) == MOST_UNUSABLE
    assert {outcome.run.load.request_rate_rps for outcome in outcomes} == {1.0}
    assert step == End("complete")
