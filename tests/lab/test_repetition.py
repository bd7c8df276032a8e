"""Loops are found; prose, code and short answers are not taken for loops."""

from __future__ import annotations

import inspect
import json
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.repetition import LEAST_CHARACTERS, distinct_share, is_degenerate

_UNITS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)


@given(_UNITS)
def test_a_short_unit_over_and_over_is_degenerate_in_any_language(unit: str) -> None:
    assert is_degenerate(unit * (400 // len(unit) + 1)) is True


@given(_UNITS)
def test_a_loop_after_a_healthy_start_is_degenerate(unit: str) -> None:
    start = inspect.getsource(json)[:500]
    assert is_degenerate(start + unit * (600 // len(unit) + 1)) is True


@given(st.text(max_size=LEAST_CHARACTERS - 1))
def test_text_that_is_too_short_is_not_judged(text: str) -> None:
    assert (distinct_share(text), is_degenerate(text)) == (None, None)


@given(st.text(min_size=LEAST_CHARACTERS, max_size=400))
def test_the_share_is_above_0_and_at_most_1(text: str) -> None:
    share = distinct_share(text)
    assert share is not None
    assert 0 < share <= 1


@pytest.mark.parametrize("characters", [512, 2048])
@pytest.mark.parametrize("module", [json, string, inspect])
def test_code_is_not_degenerate(module: object, characters: int) -> None:
    source = inspect.getsource(module)  # type: ignore[arg-type]  # a module
    pieces = [source[start : start + characters] for start in range(0, len(source) - characters + 1, characters)]
    assert pieces
    assert not any(is_degenerate(piece) for piece in pieces)


def test_the_share_counts_what_was_not_written_before() -> None:
    assert distinct_share("ab" * 50) == pytest.approx(2 / 85)
    assert distinct_share("".join(chr(300 + place) for place in range(100))) == 1
