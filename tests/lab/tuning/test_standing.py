"""Which setting a load should use, and which ones could still be better."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lab.tuning.race import Limits, next_round
from lab.tuning.setting import NONE, Setting, TunedRun
from lab.tuning.standing import Standing, comparisons, standings
from tests.lab.tuning.worlds import SPACE, World

_LIMITS = Limits()
ONE, THREE, FIVE = (Setting("head", k) for k in (1, 3, 5))


def standing(speedups: dict[Setting, float], sd: float = 0.001) -> Standing:
    settings = (NONE, *speedups)
    gains = np.log([1.0, *speedups.values()])
    return Standing(settings, gains, np.eye(len(settings)) * sd**2, np.log([1.0, *(1.0 + s.k for s in speedups)]), 1.7)


def test_the_fastest_is_chosen() -> None:
    assert standing({ONE: 1.2, THREE: 1.5, FIVE: 1.4}).chosen() == THREE


def test_a_tie_within_two_percent_goes_to_the_smaller_k() -> None:
    assert standing({ONE: 1.2, THREE: 1.49, FIVE: 1.5}).chosen() == THREE
    assert standing({ONE: 1.2, THREE: 1.46, FIVE: 1.5}).chosen() == FIVE


def test_a_tie_that_is_not_sure_is_no_tie() -> None:
    assert standing({THREE: 1.49, FIVE: 1.5}, sd=0.02).chosen() == FIVE


def test_no_speculation_is_chosen_where_nothing_is_faster_by_two_percent() -> None:
    assert standing({ONE: 0.9, THREE: 1.01}).chosen() == NONE
    assert standing({ONE: 0.9, THREE: 0.8}, sd=0.05).chosen() == NONE


def test_only_what_could_be_faster_by_two_percent_stays_in_the_race() -> None:
    at = standing({ONE: 1.2, THREE: 1.5, FIVE: 1.48}, sd=0.02)
    assert at.contenders() == (FIVE,)
    assert standing({ONE: 1.2, THREE: 1.5, FIVE: 1.48}, sd=0.002).contenders() == ()


def test_among_some_settings_only_these_count() -> None:
    at = standing({ONE: 1.2, THREE: 1.5, FIVE: 1.4})
    assert at.chosen([NONE, ONE]) == ONE
    assert at.contenders([NONE, ONE]) == ()


def test_drafting_cannot_be_faster_than_its_rounds_are_long() -> None:
    """However uncertain the measurement is."""
    unsure_of_one = replace(standing({ONE: 1.0, FIVE: 1.8}), covariance=np.diag([1e-6, 0.25, 1e-6]))
    assert unsure_of_one.contenders() == (ONE,)
    assert replace(unsure_of_one, most=np.log([1.0, 1.05, 3.0])).contenders() == ()


def test_settings_are_compared_with_no_speculation_of_the_same_block() -> None:
    """A machine that is half as fast in one block changes nothing."""
    runs = [
        TunedRun(setting, 4, block, speed * pace * (1 + 0.001 * block))
        for block, pace in enumerate((1.0, 0.5, 0.9))
        for setting, speed in ((NONE, 100.0), (THREE, 150.0))
    ]
    ratio = comparisons(runs)[THREE, 4].ratio
    assert ratio is not None
    assert ratio.value == pytest.approx(1.5)


def test_failed_settings_and_loads_without_a_baseline_are_not_chosen() -> None:
    world = World(1, run_sd=0.001, start_sd=0.001)
    first = next_round(SPACE, [], _LIMITS)
    assert first is not None
    broken = Setting("head", 5)
    runs = [
        replace(run, speed=None) if run.setting == broken or (run.setting, run.load) == (NONE, 16) else run
        for run in world.measure(first)
    ]
    by_load = standings(SPACE, runs)
    assert set(by_load) == {1, 2, 4, 8}
    assert all(broken not in at.settings for at in by_load.values())


def test_unmeasured_settings_are_predicted_near_the_truth_with_little_noise() -> None:
    """Costs in these worlds are no straight line, so some predictions are off by more."""
    errors = []
    for seed in range(5):
        world, runs = World(seed, run_sd=1e-4, start_sd=1e-4), list[TunedRun]()
        while len({run.setting for run in runs}) < 7 and (following := next_round(SPACE, runs, _LIMITS)) is not None:
            runs += world.measure(following)
        for load, at in standings(SPACE, runs).items():
            true = [math.log(world.speeds[setting, load] / world.speeds[NONE, load]) for setting in at.settings]
            errors += np.abs(at.gains - true).tolist()
    assert np.median(errors) <= 0.03
    assert np.quantile(errors, 0.9) <= 0.1


def test_a_setting_is_deployed_early_only_if_drafting_surely_pays() -> None:
    unsure = standing({ONE: 1.2, THREE: 1.21}, sd=0.2)
    assert (unsure.chosen(), unsure.deployable()) == (THREE, NONE)
    paying = standing({ONE: 1.5, THREE: 1.6}, sd=0.05)
    assert paying.contenders() == (ONE,)
    assert paying.deployable() == THREE
    decided = standing({ONE: 1.005, THREE: 0.9}, sd=0.003)
    assert decided.contenders() == ()
    assert decided.deployable() == decided.chosen()
