"""The rule of alarms and the gate, on nights made by hand and on small simulated years."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.deciding.series import WORLDS, falls, quiet
from lab.series.alarm import LEAST_NIGHTS, MEASURES, MOST_AGAIN, Night, judge
from lab.series.gate import against, verdict

SPEEDUP, ACCEPTANCE = MEASURES


def nights(count: int = 20, noise: float = 0.01) -> list[Night]:
    random = np.random.default_rng(7)
    return [Night((float(value),), noise) for value in random.normal(math.log(1.4), noise, count)]


def at(*ratios: float) -> Night:
    return Night(tuple(math.log(1.4 * ratio) for ratio in ratios), 0.01)


def test_too_few_nights_decide_nothing() -> None:
    assert judge(nights(LEAST_NIGHTS - 1), at(0.5), SPEEDUP).word == "learning"


def test_a_usual_night_lies_between_the_predicted_bounds() -> None:
    found = judge(nights(), at(1.0), SPEEDUP)
    assert found.word == "usual"
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1.4 < found.high < 1.4 * 1.06


def test_a_fall_is_suspicious_first_and_decided_by_measuring_again() -> None:
    assert judge(nights(), at(0.9), SPEEDUP).word == "suspicious"
    found = judge(nights(), at(0.9, 0.9), SPEEDUP)
    assert (found.word, found.window) == ("fall", 1)
    assert found.change == pytest.approx(-0.1, abs=0.01)


def test_a_noisy_night_that_is_not_confirmed_is_an_outlier_and_predicts_nothing() -> None:
    assert judge(nights(), at(0.9, 1.0), SPEEDUP).word == "outlier"
    usual = judge(nights(), at(1.0), SPEEDUP)
    outlier = Night(at(0.9, 1.0).values, 0.01, is_outlier=True)
    after = judge([*nights(), outlier], at(1.0), SPEEDUP)
    assert (after.low, after.high) == (usual.low, usual.high)


def test_a_rise_is_a_change_of_its_own() -> None:
    assert judge(nights(), at(1.1, 1.1), SPEEDUP).word == "rise"


def test_a_change_within_the_margin_is_usual_however_certain() -> None:
    assert judge(nights(60, 0.0001), at(0.985), SPEEDUP).word == "usual"


def test_measuring_again_ends() -> None:
    doubtful = 0.972
    words = [judge(nights(), at(*[doubtful] * count), SPEEDUP).word for count in range(1, MOST_AGAIN + 2)]
    assert words[0] == "suspicious"
    assert words[-1] != "suspicious"


def test_a_gate_decides_by_the_whole_interval() -> None:
    past = nights()
    ratios = {0.85: "worse", 1.0: "not worse", 0.95: "inconclusive"}
    assert {ratio: against(past, 1.4 * ratio, 0.01, SPEEDUP, 0.05).word for ratio in ratios} == ratios
    assert against(past[:3], 1.4, 0.01, SPEEDUP, 0.05).word == "inconclusive"
    assert against(past, None, 0.0, ACCEPTANCE, 0.05).word == "inconclusive"
    assert against(past, 1.4, 0.1, SPEEDUP, 0.05).word == "inconclusive"  # a study noisier than the series


def test_a_gate_is_worse_by_any_measure_and_passes_by_all() -> None:
    good, bad, open_ = (against(nights(), 1.4 * ratio, 0.01, SPEEDUP, 0.05) for ratio in (1.0, 0.8, 0.95))
    assert [verdict(parts) for parts in ([good, good], [good, open_], [open_, bad], [])] == [
        *("not worse", "inconclusive", "worse", "inconclusive")
    ]


def test_simulated_years_have_few_false_alarms_and_falls_are_found() -> None:
    calm = quiet(WORLDS[0], 8, 3)
    assert calm.alarms <= 2 * calm.nights / 500
    found = falls(WORLDS[0], 0.05, 12, 4)
    assert sum(nights is not None and nights <= 2 for nights in found) >= 8
    assert falls(WORLDS[1], 0.02, 6, 5) == [1] * 6
