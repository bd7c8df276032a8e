"""Text of others is storable: as UTF-8, in Parquet, and in PostgreSQL, which refuses NUL."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from lab.storable import storable


@given(st.text(st.characters()), st.none() | st.integers(10, 30))
def test_whatever_a_text_holds_it_can_be_stored(text: str, most_chars: int | None) -> None:
    stored = storable(text, most_chars)
    assert pa.array([stored]).to_pylist() == [stored]
    assert "\0" not in stored
    assert most_chars is None or len(stored) <= most_chars


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_text_that_can_be_stored_stays_as_it_is(text: str) -> None:
    assert storable(text) == text


def test_halves_are_joined_and_what_is_left_over_is_marked() -> None:
    assert storable("a\ud83d\udca9\0b\ud83d") == "a\U0001f4a9\ufffdb\ufffd"
    assert storable("0123456789abcdef", 12) == "012345 [...]"
