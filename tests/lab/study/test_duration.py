"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.study.duration import duration_text, parse_duration_s, rough_duration


@given(st.integers(1, 10**6))
def test_a_duration_reads_back_as_it_was(seconds: int) -> None:
    assert parse_duration_s(duration_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"), [("45 min", 2700), ("45min", 2700), (" 1 h 30 min ", 5400), ("90 s", 90), ("2 h", 7200)]
)
def test_hours_minutes_and_seconds_are_read(text: str, seconds: int) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "45", "0 min", "1.5 h", "45 minutes", "30 min 1 h", "-5 min", "1 h 1 h", "min"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="write it like 45 min, 1 h 30 min or 90 s"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "1 min"), (2700, "45 min"), (7100, "118 min"), (7200, "2 h"), (83_940, "23 h")]
)
def test_a_forecast_of_hours_is_in_hours(seconds: float, words: str) -> None:
    assert rough_duration(seconds) == words
