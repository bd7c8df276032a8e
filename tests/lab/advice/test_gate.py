"""A gate of CI: it stops what is certainly slower, lets through what certainly is not, and says when it cannot know."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from lab.advice.gate import gate
from lab.comparison.compare import Comparison
from lab.comparison.effect import Effect, Interval
from lab.comparison.samples import RunSample
from lab.comparison.spread import Spread, student
from lab.metrics.definition import Better
from tests.lab.comparison.one_cell import compare


def cell(log_ratio: float, error: float, better: Better = "higher", df: float = 20.0) -> Comparison:
    """A cell whose log ratio has this standard error."""
    effect = Effect(log_ratio, Spread(np.array(error**2), df, np.array(0.0), math.inf))
    interval = effect.interval(0.95)
    assert interval.low is not None
    assert interval.high is not None
    ratio = Interval(math.exp(interval.value), math.exp(interval.low), math.exp(interval.high))
    return Comparison(better, 3, None, ratio, None, effect, "3 repeats")


SAME, SLOW, HAZY = cell(0.0, 0.005), cell(-0.2, 0.005), cell(-0.02, 0.05)


@pytest.mark.parametrize(
    ("table", "answer"),
    [
        ([SAME, SAME], "not slower"),
        ([SAME, SLOW], "slower"),
        ([SAME, HAZY], "inconclusive"),
        ([HAZY, SLOW], "slower"),
        ([cell(0.2, 0.005, "lower")], "slower"),  # a latency
        ([cell(-0.2, 0.005, "lower")], "not slower"),
        ([], "inconclusive"),
    ],
)
def test_a_gate_has_three_answers(table: list[Comparison], answer: str) -> None:
    assert gate(table, 0.05) == answer


def test_slower_by_less_than_the_limit_passes() -> None:
    assert gate([cell(math.log(0.97), 0.002)], 0.05) == "not slower"
    assert gate([cell(math.log(0.97), 0.002)], 0.01) == "slower"


def test_without_an_interval_the_gate_is_inconclusive_unless_another_cell_is_slower() -> None:
    alone = compare([RunSample("b", "plain", 0, 100.0)], [RunSample("c", "draft", 0, 150.0)], "higher")
    assert gate([SAME, alone], 0.05) == "inconclusive"
    assert gate([SLOW, alone], 0.05) == "slower"


def test_a_study_until_decided_pays_for_its_looks_in_both_answers() -> None:
    """At three repeats 5 % cost as much as 0.9 % without looks."""
    error, reached = 0.01, float(student(20.0, 0.97)) * 0.01  # beyond 5 %, short of 0.9 %
    for value, answer in ((-0.2 - reached, "slower"), (reached - 0.2, "not slower")):
        surely = cell(value, error)
        assert gate([surely], 1 - math.exp(-0.2)) == answer
        assert gate([replace(surely, until_decided=True)], 1 - math.exp(-0.2)) == "inconclusive"


def test_equal_numbers_in_every_repeat_pass_at_a_limit_of_0() -> None:
    assert gate([cell(0.0, 0.0)], 0.0) == "not slower"


def test_at_the_limit_five_of_a_hundred_tables_give_either_answer() -> None:
    rng, tables, worst = np.random.default_rng(4), 400, math.log(0.95)
    errors = 0.02 * rng.standard_normal((tables, 20))
    spreads = 0.02 * np.sqrt(rng.chisquare(20, (tables, 20)) / 20)
    answers = [
        gate([cell(worst + error, spread) for error, spread in zip(*row, strict=True)], 0.05)
        for row in zip(errors, spreads, strict=True)
    ]
    luck = 3 * math.sqrt(0.05 * 0.95 / tables)
    assert np.mean([answer == "slower" for answer in answers]) <= 0.05 + luck
    one_slow = [
        gate([cell(0.1 if place else worst - 1e-9 + error, spread) for place, (error, spread) in enumerate(row)], 0.05)
        for row in (list(zip(*table, strict=True)) for table in zip(errors, spreads, strict=True))
    ]
    assert np.mean([answer == "not slower" for answer in one_slow]) <= 0.05 + luck
