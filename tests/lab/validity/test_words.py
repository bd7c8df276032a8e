"""How figures are written in sentences."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab.validity.words import listed, ms, of_requests, percent


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda: percent(0.125), "12.5 %"),
        (lambda: percent(1), "100 %"),
        (lambda: percent(0.98765), "98.8 %"),
        (lambda: percent(0.0004), "0.04 %"),
        (lambda: ms(99.94), "99.9 ms"),
        (lambda: ms(1.2345), "1.23 ms"),
        (lambda: ms(100), "100 ms"),
        (lambda: ms(1234.5678), "1235 ms"),
        (lambda: of_requests(1, 1), "1 of 1 request"),
        (lambda: of_requests(1, 2), "1 of 2 requests"),
        (lambda: listed([]), ""),
        (lambda: listed(["a", "b", "c"]), "a, b, c"),
        (lambda: listed(["a", "b", "c", "d"]), "a, b, c and 1 more"),
        (lambda: listed(["a", "b", "c"], 1), "a and 2 more"),
    ],
)
def test_a_figure_is_written_short_and_with_its_unit(write: Callable[[], str], expected: str) -> None:
    assert write() == expected
