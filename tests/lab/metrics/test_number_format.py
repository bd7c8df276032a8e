"""Three significant digits, or as many as the interval deserves."""

from __future__ import annotations

import pytest

from lab.metrics import number_format


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
    ],
)
def test_a_share_has_as_many_decimals_as_its_interval_deserves(
    value: float | None, low: float | None, high: float | None, words: str
) -> None:
    assert number_format.percent(value, low, high) == words
