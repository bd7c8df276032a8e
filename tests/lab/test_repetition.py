"""Loops are found; prose, code and short answers are not taken for loops."""

from __future__ import annotations

import inspect
import json
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab import repetition
from lab.repetition import LEAST_CHARACTERS, LEAST_DISTINCT_SHARE, degenerate, distinct_shares

_UNITS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(_UNITS)
def test_a_short_unit_over_and_over_is_degenerate_in_any_language(unit: str) -> None:
    assert degenerate([unit * (400 // len(unit) + 1)]).tolist() == [True]


@given(_UNITS)
def test_a_loop_after_a_healthy_start_is_degenerate(unit: str) -> None:
    start = inspect.getsource(json)[:500]
    assert degenerate([start + unit * (600 // len(unit) + 1)]).tolist() == [True]


@given(st.text(max_size=LEAST_CHARACTERS - 1))
def test_text_that_is_too_short_is_not_judged(text: str) -> None:
    assert np.isnan(distinct_shares([text])).all()
    assert degenerate([text]).size == 0


@given(st.text(min_size=LEAST_CHARACTERS, max_size=400))
def test_the_share_is_above_0_and_at_most_1(text: str) -> None:
    (share,), _ = distinct_shares([text])
    assert 0 < share <= 1


@pytest.mark.parametrize("characters", [512, 2048])
@pytest.mark.parametrize("module", [json, string, inspect])
def test_code_is_not_degenerate(module: object, characters: int) -> None:
    source = inspect.getsource(module)  # type: ignore[arg-type]  # a module
    pieces = [source[start : start + characters] for start in range(0, len(source) - characters + 1, characters)]
    assert pieces
    assert not degenerate(pieces).any()


def test_the_share_counts_what_was_not_written_before() -> None:
    whole, half = distinct_shares(["ab" * 64, "".join(chr(300 + place) for place in range(128))])
    assert whole.tolist() == [2 / 113, 1.0]
    assert half.tolist() == [2 / 49, 1.0]


_LOOPS = st.tuples(st.text(max_size=120), _UNITS, st.integers(0, 30)).map(lambda drawn: drawn[0] + drawn[1] * drawn[2])


@given(st.lists(st.text(max_size=200) | _LOOPS, max_size=8))
def test_texts_that_look_healthy_by_some_of_their_grams_are_judged_as_by_all(texts: list[str]) -> None:
    wholes, halves = distinct_shares(texts)
    by_all = np.fmin(wholes, halves)[~np.isnan(wholes)] < LEAST_DISTINCT_SHARE
    assert degenerate(texts).tolist() == by_all.tolist()


def test_most_healthy_text_is_recognized_by_a_third_of_its_grams() -> None:
    source = inspect.getsource(inspect)
    pieces = [source[start : start + 500] for start in range(0, 50_000, 500)]
    column = repetition._column(pieces)
    assert repetition._surely_varied(column, repetition._lengths(column)).mean() > 0.7
