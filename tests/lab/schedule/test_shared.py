"""What the slots of a host measure next where they share a study, whichever block ends first."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.schedule import End, Outcome, Share, schedule_of, shared_schedule
from lab.schedule.until_decided import spent_s
from lab.study import Study
from lab.study.plan import Launch, plan
from tests.lab.schedule.measuring import World, measured, outcome_of
from tests.lab.schedule.test_until_decided import until_decided, world
from tests.lab.studies import study

NO_BLOCKS: list[str | None] = []
NOTHING = dict[int, list[Outcome]]().__getitem__


@dataclass
class Measured:
    """What slots measured together, and until when."""

    contents: list[str | None] = field(default_factory=list)
    outcomes: dict[int, list[Outcome]] = field(default_factory=dict)  # of each block that is done
    wall_s: float = 0.0
    end: End = field(default_factory=lambda: End(""))

    @property
    def all_outcomes(self) -> list[Outcome]:
        return [outcome for _, outcomes in sorted(self.outcomes.items()) for outcome in outcomes]


def outcomes_of(block: tuple[Launch, ...], truth: World) -> list[Outcome]:
    return [outcome_of(run, launch.index, truth(run)) for launch in block for run in launch.runs]


def measured_by(slots: int, of: Study, truth: World, paces: tuple[float, ...] = (1.0,)) -> Measured:
    """Measure until the end; a block takes `paces` in turn times what its runs and starts take."""
    schedule, done, pace = shared_schedule(of), Measured(), itertools.cycle(paces)
    under_way: list[tuple[float, int]] = []  # ends at, block
    while True:
        following = schedule.next(done.contents, done.outcomes, done.outcomes.__getitem__)
        if isinstance(following, Share) and len(under_way) < slots:
            done.contents.append(following.content)
            block = schedule.launches(done.contents)[-1]
            took_s = next(pace) * spent_s(outcomes_of(block, truth))
            heapq.heappush(under_way, (done.wall_s + took_s, len(done.contents) - 1))
            continue
        if isinstance(following, End):
            assert not under_way
            done.end = following
            return done
        assert under_way, "nobody measures, and nothing follows"
        done.wall_s, number = heapq.heappop(under_way)
        done.outcomes[number] = outcomes_of(schedule.launches(done.contents)[number], truth)


def test_a_plan_is_handed_out_block_by_block() -> None:
    of = study(repeats=5)
    done = measured_by(3, of, world())
    assert done.end == End("complete")
    assert [outcome.run for outcome in done.all_outcomes] == [run for launch in plan(of) for run in launch.runs]
    schedule = shared_schedule(of)
    assert [launch for block in schedule.launches([None] * 2) for launch in block] == list(plan(of)[:4])
    assert schedule.later([None] * 2) == plan(of)[4:]


def test_slots_decide_what_one_decides_in_less_time() -> None:
    of, truth = until_decided(arms=("plain", "good", "bad"), budget="10 h"), world(good=1.08, bad=0.92, noise=0.02)
    alone, together = measured_by(1, of, truth), measured_by(3, of, truth)
    assert alone.end.sentence == "7 of 8 comparisons decided; 'bad' was dropped: 'good' is faster in every cell."
    assert together.end.sentence == "7 of 8 comparisons decided; 'bad' was dropped: 'good' is faster in every cell."
    assert together.wall_s < 0.7 * alone.wall_s
    assert spent_s(together.all_outcomes) < 1.3 * spent_s(alone.all_outcomes)


def test_one_slot_measures_what_a_worker_of_its_own_measures() -> None:
    of, truth = until_decided(budget="2 h"), world(good=1.3, bad=0.8, noise=0.02)
    steps, end = measured(schedule_of(of), truth)
    done = measured_by(1, of, truth)
    assert [outcome.run for outcome in done.all_outcomes] == [run for step in steps for run in step.launch.runs]
    assert done.end == end


def test_a_slot_waits_for_the_first_look_and_for_enough_blocks() -> None:
    of, truth = until_decided(arms=("plain", "good", "bad"), budget="10 h"), world(good=1.02, bad=0.98, noise=0.015)
    schedule, contents = shared_schedule(of), list(NO_BLOCKS)
    for _ in range(2):
        first = schedule.next(contents, [], NOTHING)
        assert isinstance(first, Share)
        assert first.left_s == 10 * 3600
        contents.append(first.content)
    assert schedule.next(contents, [], NOTHING) is None
    outcomes = [outcomes_of(block, truth) for block in schedule.launches(contents)]
    assert schedule.next(contents, [1], outcomes.__getitem__) is None
    awaited = 0
    while isinstance(share := schedule.next(contents, [0, 1], outcomes.__getitem__), Share):
        assert "of 8 comparisons decided" in share.standing
        contents.append(share.content)
        awaited += 1
    assert share is None
    assert awaited == 2  # no more than are done


def test_the_end_waits_for_what_is_under_way() -> None:
    of, truth = until_decided(arms=("plain", "good", "bad"), budget="10 h"), world(good=1.5, bad=0.7, noise=0.005)
    schedule = shared_schedule(of)
    first = schedule.next([], [], NOTHING)
    assert isinstance(first, Share)
    contents = [first.content] * 3  # as if a third one had been handed out before the first look
    outcomes = [outcomes_of(block, truth) for block in schedule.launches(contents)]
    assert schedule.next(contents, [0, 1], outcomes.__getitem__) is None
    assert schedule.next(contents, [0, 1, 2], outcomes.__getitem__) == End("decided", "8 of 8 comparisons decided.")


@settings(max_examples=20)
@given(
    slots=st.integers(1, 5),
    minutes=st.integers(1, 40),
    noise=st.sampled_from([0.005, 0.03]),
    paces=st.lists(st.floats(0.5, 2.0), min_size=1, max_size=5),
    changes=st.sampled_from([{}, {"order": "side_by_side"}]),
)
@pytest.mark.timeout(1800)
def test_no_run_is_handed_out_twice_and_the_budget_holds(
    slots: int, minutes: int, noise: float, paces: list[float], changes: dict[str, Any]
) -> None:
    of = until_decided(f"{minutes} min", arms=("plain", "good", "same"), **changes)
    done = measured_by(slots, of, world(good=1.1, noise=noise, turned=True), tuple(paces))
    assert done.end.reason in ("decided", "hopeless", "budget spent")
    places = [outcome.run.names for outcome in done.all_outcomes]
    assert len(places) == len(set(places))
    block_of_launch = [
        (outcome.launch_index, block) for block, outcomes in done.outcomes.items() for outcome in outcomes
    ]
    assert len({launch for launch, _ in block_of_launch}) == len(set(block_of_launch))
    first_look_s = spent_s(done.outcomes[0] + done.outcomes[1])
    assert spent_s(done.all_outcomes) <= max(60 * minutes, first_look_s)
