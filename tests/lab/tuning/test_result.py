"""What a tuning found, as an engine takes it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.study import Speculation
from lab.study.arm import SCHEDULE
from lab.study.load import MOST_AT_ONCE
from lab.tuning.result import best_single, deployed_draft, schedule
from lab.tuning.setting import NONE, Setting, Space
from lab.tuning.standing import Standing

SPACE = Space(("model", "head"), (1, 3), (1, 16))
SETTINGS = SPACE.settings


def standing(*speedups: float) -> Standing:
    """No speculation, model with 1 and 3 tokens, head with 1 and 3 tokens."""
    return Standing(SETTINGS, np.log([1.0, *speedups]), np.eye(5) * 1e-8, np.log([1.0, 2.0, 4.0, 2.0, 4.0]), 1.7)


@given(st.dictionaries(st.integers(1, MOST_AT_ONCE), st.integers(0, 5), min_size=1, max_size=6))
def test_a_schedule_drafts_at_every_load_what_is_best_there(tokens: dict[int, int]) -> None:
    ranges = schedule(tokens)
    assert ranges[0][0] == 1
    assert ranges[-1][1] == MOST_AT_ONCE
    assert all(first <= last for first, last, _ in ranges)
    assert all(after[0] == before[1] + 1 for before, after in itertools.pairwise(ranges))
    assert all(after[2] != before[2] for before, after in itertools.pairwise(ranges))
    options = {SCHEDULE: [list(range_) for range_ in ranges]}
    arm = Speculation(method="ngram", num_speculative_tokens=5, options=options)
    assert {load: arm.scheduled_tokens(load) for load in tokens} == tokens


def test_neighbouring_loads_with_the_same_tokens_are_one_range() -> None:
    assert schedule({1: 3, 4: 3, 16: 1, 64: 0}) == [(1, 8, 3), (9, 32, 1), (33, MOST_AT_ONCE, 0)]


def test_the_draft_that_is_best_over_all_loads_is_deployed() -> None:
    standing_at = {1: standing(1.5, 1.8, 1.4, 1.7), 16: standing(0.7, 0.6, 1.3, 1.1)}
    assert deployed_draft(SPACE, standing_at) == "head"
    assert [at.chosen() for at in standing_at.values()] == [Setting("model", 3), Setting("head", 1)]


def test_a_draft_that_loses_under_load_may_win_by_its_schedule() -> None:
    standing_at = {1: standing(1.5, 1.8, 1.2, 1.2), 16: standing(0.5, 0.3, 1.1, 1.0)}
    assert deployed_draft(SPACE, standing_at) == "model"


def test_nothing_is_deployed_where_no_draft_pays_anywhere() -> None:
    standing_at = {1: standing(0.9, 0.8, 0.7, 0.6), 16: standing(0.5, 0.3, 1.01, 1.0)}
    assert deployed_draft(SPACE, standing_at) is None
    assert best_single(standing_at) == NONE


@pytest.mark.parametrize(("alone", "single"), [(1.8, Setting("model", 3)), (1.2, Setting("head", 1))])
def test_the_best_single_setting_is_the_one_that_is_fastest_on_average(alone: float, single: Setting) -> None:
    standing_at = {1: standing(1.1, alone, 1.2, 1.0), 16: standing(0.8, 0.9, 1.1, 1.0)}
    assert best_single(standing_at) == single
