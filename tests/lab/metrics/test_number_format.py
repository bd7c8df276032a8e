"""Three significant digits, or as many as the interval deserves."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lab.metrics import number_format
from lab.metrics.number_format import is_saving_too_wide, is_too_wide


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0, "0"),
        (0.01234, "0.0123"),
        (38.912, "38.9"),
        (112.345, "112"),
        (12345, "12,345"),
    ],
)
def test_a_number_has_three_digits_that_mean_something(value: float | None, words: str) -> None:
    assert number_format.number(value) == words


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (1.478, 1.361, 1.604, "1.48× [1.36, 1.60]"),
        (0.97, 0.95, 0.99, "0.97× [0.95, 0.99]"),
        (1.5163, 1.5121, 1.5204, "1.516× [1.512, 1.520]"),
        (1.2, 1.0, 1.4, "1.20× [1.00, 1.40]"),
        (1.2, 1.004, 1.4, "1.200× [1.004, 1.400]"),
        (12.34, 2.0, 80.0, "12.3× [2.0, 80.0]"),
        (1.6, 0.16, 16.0, "1.60× [0.16, 16.00]"),
        (1.6, 0.0, 350297542.38, "1.60× [unknown]"),
        (1.6, 0.159, 3.0, "1.60× [unknown]"),
        (1.6, 1.1, 16.01, "1.60× [unknown]"),
        (1.0, 1.0, 1.0, "1.00× [1.00, 1.00]"),
        (1.478, None, None, "1.48×"),
        (1.478, float("nan"), float("nan"), "1.48×"),
        (None, None, None, "–"),
        (float("nan"), None, None, "–"),
    ],
)
def test_a_ratio_has_the_digits_that_its_interval_deserves(
    value: float | None, low: float | None, high: float | None, words: str
) -> None:
    """A bound that excludes 1 does not read as 1."""
    assert number_format.ratio(value, low, high) == words


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (None, None, None, "–"),
        (32.34, None, None, "32.3 %"),
        (32.34, -4.61, 52.04, "32.3 % [-4.6, 52.0]"),
        (2.812, 2.801, 2.823, "2.81 % [2.80, 2.82]"),
        (50.0, -400.0, 95.0, "50.0 % [-400.0, 95.0]"),
        (50.0, -401.0, 95.0, "50.0 % [unknown]"),
        (37.5, -35029754138.0, 99.9, "37.5 % [unknown]"),
    ],
)
def test_a_share_has_as_many_decimals_as_its_interval_deserves(
    value: float | None, low: float | None, high: float | None, words: str
) -> None:
    assert number_format.percent(value, low, high) == words


@pytest.mark.parametrize(
    ("value", "low", "high", "words"),
    [
        (1.42, 1.28, 1.58, "42 % higher (95 % CI 28 to 58 %)"),
        (0.6757, 0.6756756, 0.6756757, "32.43 % lower (95 % CI 32.43 to 32.43 %)"),
        (1.00012, 1.00004, 1.0002, "0.012 % higher (95 % CI 0.004 to 0.020 %)"),
    ],
)
def test_a_change_has_no_more_decimals_than_a_ratio_unless_it_is_tiny(
    value: float, low: float, high: float, words: str
) -> None:
    assert number_format.change(value, low, high) == words


def test_a_part_of_one_is_written_like_every_other_percentage() -> None:
    assert number_format.percentage(0.3141) == "31 %"
    assert number_format.percentage(-0.025, 1, sign=True) == "-2.5 %"


@given(st.floats(0.01, 100), st.floats(1e-6, 1), st.floats(1, 1e6))
def test_an_interval_is_too_wide_whichever_way_round_its_ratio_is(value: float, down: float, up: float) -> None:
    assume(min(abs(10 * down - 1), abs(up / 10 - 1)) > 1e-9)  # beyond rounding
    wide = is_too_wide(value, value * down, value * up)
    assert wide is (down < 0.1 or up > 10)
    assert wide is is_too_wide(1 / value, 1 / (value * up), 1 / (value * down))
    assert wide is is_saving_too_wide(1 - value, 1 - value * up, 1 - value * down, whole=1.0)


def test_an_interval_of_no_ratio_is_judged_by_its_distance_from_zero() -> None:
    assert number_format.bounds(8.5, -2.1, 19.0, of_ratio=False) == "[-2.10, 19.00]"
    assert number_format.bounds(8.5, -70.0, 87.0, of_ratio=False) == "[unknown]"
    assert number_format.bounds(-8.5, -90.0, 73.0, of_ratio=False) == "[unknown]"


def test_a_load_between_two_others_is_written_by_its_unit_or_unknown() -> None:
    assert number_format.between(3.5, 3.1, 4.25) == "3.10 to 4.25"
    assert number_format.between(3.5, 3.1, 4.25, "about {}".format) == "about 3.1 to about 4.25"
    assert number_format.between(3.5, 0.2, 4.25) == "unknown"
