"""Loops are found; prose, code and short answers are not taken for loops."""

from __future__ import annotations

import inspect
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.repetition import LEAST_CHARACTERS, LEAST_DISTINCT_SHARE, degenerate

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
    assert degenerate([text]).size == 0


@pytest.mark.parametrize("characters", [512, 2048])
@pytest.mark.parametrize("module", [json, string, inspect])
def test_code_is_not_degenerate(module: object, characters: int) -> None:
    source = inspect.getsource(module)  # type: ignore[arg-type]  # a module
    pieces = [source[start : start + characters] for start in range(0, len(source) - characters + 1, characters)]
    assert pieces
    assert not degenerate(pieces).any()


_LOOPS = st.tuples(st.text(max_size=120), _UNITS, st.integers(0, 30)).map(lambda drawn: drawn[0] + drawn[1] * drawn[2])


def share(text: str) -> float:
    grams = [text[start : start + 16] for start in range(len(text) - 15)]
    return len(set(grams)) / len(grams) if len(text) >= LEAST_CHARACTERS else 1.0


@given(st.lists(st.text(max_size=200) | _LOOPS, max_size=8))
def test_a_text_is_judged_by_the_share_of_its_distinct_grams(texts: list[str]) -> None:
    long = [text for text in texts if len(text) >= LEAST_CHARACTERS]
    by_share = [min(share(text), share(text[len(text) // 2 :])) < LEAST_DISTINCT_SHARE for text in long]
    assert degenerate(texts).tolist() == by_share
