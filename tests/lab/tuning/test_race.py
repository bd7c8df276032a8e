"""What a tuning measures next follows from what it has measured, and it ends."""

from __future__ import annotations

import dataclasses

import pytest

from lab.tuning.race import LEAST_BLOCKS, Limits, next_round
from lab.tuning.setting import NONE, Setting, TunedRun
from lab.tuning.standing import standings
from tests.lab.tuning.worlds import SPACE, World

GREATEST = SPACE.ks[-1]
EIGHT = Limits(8)


def raced(world: World, limits: Limits = EIGHT) -> list[TunedRun]:
    runs: list[TunedRun] = []
    while (following := next_round(SPACE, runs, limits)) is not None:
        assert next_round(SPACE, list(runs), limits) == following
        runs += world.measure(following)
    return runs


def test_it_begins_with_no_speculation_and_every_draft_at_the_greatest_k() -> None:
    first = next_round(SPACE, [], Limits())
    assert first is not None
    assert list(first.loads) == [NONE, *(Setting(draft, GREATEST) for draft in SPACE.drafts)]
    assert set(first.loads.values()) == {SPACE.loads}


def test_a_draft_that_cannot_win_by_its_acceptance_is_not_started_again() -> None:
    """One token in two hundred is accepted."""
    world = World(5, accepted={"look-up": (0.005, 0.0, 0.0, 0.0, 0.0)}, run_sd=0.003, start_sd=0.003)
    runs = raced(world)
    assert {run.setting for run in runs if run.setting.draft == "look-up"} == {Setting("look-up", GREATEST)}


@pytest.mark.parametrize("seed", range(3))
def test_no_run_is_measured_twice_and_every_block_has_its_baseline(seed: int) -> None:
    runs = raced(World(seed))
    keys = [(run.setting, run.load, run.block) for run in runs]
    assert len(set(keys)) == len(keys)
    assert all((NONE, load, block) in keys for _, load, block in keys)


@pytest.mark.parametrize("seed", range(3))
def test_it_ends_with_nothing_better_and_an_interval_of_the_chosen(seed: int) -> None:
    runs = raced(World(seed, run_sd=0.005, start_sd=0.003))
    blocks = len({run.block for run in runs})
    for load, at in standings(SPACE, runs).items():
        assert blocks == 8 or at.contenders() == ()
        chosen = at.chosen()
        assert chosen == NONE or sum((run.setting, run.load) == (chosen, load) for run in runs) >= LEAST_BLOCKS


@pytest.mark.parametrize("most", [20, 50, 90])
def test_it_never_takes_more_runs_or_blocks_than_allowed(most: int) -> None:
    runs = raced(World(4, run_sd=0.05, start_sd=0.03), Limits(5, runs=most))
    assert len(runs) <= max(most, 4 * len(SPACE.loads) + 3 * len(SPACE.loads))
    assert len({run.block for run in runs}) <= 5


def test_an_engine_that_never_starts_with_a_draft_ends_nothing_else() -> None:
    world, runs = World(7), list[TunedRun]()
    while (following := next_round(SPACE, runs, Limits(6))) is not None:
        runs += [
            TunedRun(run.setting, run.load, run.block, None) if run.setting.draft == "head" else run
            for run in world.measure(following)
        ]
    assert {run.setting.k for run in runs if run.setting.draft == "head"} == {GREATEST}
    assert all(at.chosen().draft != "head" for at in standings(SPACE, runs).values())


def test_without_known_acceptance_every_k_runs_once() -> None:
    world, runs = World(2), list[TunedRun]()
    while (following := next_round(SPACE, runs, Limits(6))) is not None:
        runs += [dataclasses.replace(run, accepted=()) for run in world.measure(following)]
    assert {run.setting for run in runs if run.block == 0} == set(SPACE.settings)
    standing_at = standings(SPACE, runs)
    assert all(set(at.settings) == set(SPACE.settings) for at in standing_at.values())
    assert all(world.loss(at.chosen(), load) <= 0.03 for load, at in standing_at.items())


@pytest.mark.parametrize("disturbed", [NONE, Setting("head", GREATEST)])
def test_a_load_whose_first_runs_were_disturbed_is_tried_again(disturbed: Setting) -> None:
    world, runs = World(7), list[TunedRun]()
    while (following := next_round(SPACE, runs, EIGHT)) is not None:
        runs += [
            dataclasses.replace(run, speed=None, is_disturbed=True)
            if (run.setting, run.block) == (disturbed, 0)
            else run
            for run in world.measure(following)
        ]
    for load in SPACE.loads:
        assert (Setting("head", GREATEST), load, 1) in {(run.setting, run.load, run.block) for run in runs}
        assert Setting("head", GREATEST) in standings(SPACE, runs)[load].settings


def test_what_is_disturbed_each_time_is_given_up() -> None:
    world, runs = World(7), list[TunedRun]()
    while (following := next_round(SPACE, runs, EIGHT)) is not None:
        runs += [dataclasses.replace(run, speed=None, is_disturbed=True) for run in world.measure(following)]
    assert {run.block for run in runs} == set(range(LEAST_BLOCKS))
    assert standings(SPACE, runs) == {}
