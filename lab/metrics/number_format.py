"""How numbers are written, the same on pages, charts, the terminal and in reports."""

from __future__ import annotations

import math
from collections.abc import Callable

_UNKNOWN = "–"
#: No interval deserves more decimals of a ratio.
_MOST_DECIMALS = 4
#: An interval that reaches beyond this many times its number, or below that part of a ratio, is too wide to be useful.
_MOST_TIMES = 10.0
#: From this ratio on a change reads better as a factor than in per cent.
_MOST_PERCENT = 2.0
#: Shown instead of such an interval.
_TOO_WIDE = "[unknown]"


def number(value: float | None, digits: int = 3) -> str:
    """Format with about `digits` significant digits and separated thousands; a dash for None and NaN."""
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    if value == 0:
        return "0"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def ratio(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Format as `1.48× [1.36, 1.60]`; without bounds the ratio alone, and a dash for None and NaN."""
    return " ".join(part for part in (times(value, low, high), bounds(value, low, high)) if part)


def times(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Format as `1.48×`, without bounds."""
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    return f"{value:,.{_decimals(value, low, high)}f}×"


def bounds(
    value: float | None,
    low: float | None,
    high: float | None,
    decimals: int | None = None,
    *,
    of_ratio: bool = True,
) -> str:
    """Format bounds as `[1.36, 1.60]`; empty if one is unknown, `[unknown]` if they are too wide to be useful.

    `decimals` replaces the number of decimals that the interval deserves. `of_ratio` as `is_too_wide` takes it.
    """
    if value is None or low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    if is_too_wide(value, low, high, of_ratio=of_ratio):
        return _TOO_WIDE
    decimals = _decimals(value, low, high) if decimals is None else decimals
    return f"[{low:,.{decimals}f}, {high:,.{decimals}f}]"


def between(value: float, low: float | None, high: float | None, write: Callable[[float | None], str] = number) -> str:
    """Format the bounds of a number above 0 as `3.10 to 4.25`; `unknown` if they are too wide to be useful."""
    if low is not None and high is not None and is_too_wide(value, low, high):
        return _TOO_WIDE.strip("[]")
    return f"{write(low)} to {write(high)}"


def counted(number: int, noun: str, nouns: str | None = None) -> str:
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"


def percent(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Format a saving in per cent as `32.3 % [-67.6, 72.6]`; without bounds the saving alone."""
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return f"{value:,.1f} %"
    if is_saving_too_wide(value, low, high):
        return f"{value:,.1f} % {_TOO_WIDE}"
    decimals = 1 if high <= low else min(3, max(1, -math.floor(math.log10((high - low) / 2))))
    return f"{value:,.{decimals}f} % [{low:,.{decimals}f}, {high:,.{decimals}f}]"


def percentage(value: float, decimals: int = 0, *, sign: bool = False) -> str:
    """Format a part of 1 in per cent: `31.4 %`; with `sign` a difference of two: `+2.5 %`."""
    return f"{100 * value:{'+' if sign else ''}.{decimals}f} %"


def change(value: float, low: float | None = None, high: float | None = None, *, strict: bool = False) -> str:
    """Format a ratio as a change: `57 % lower (95 % CI 15 to 78 %)`; from twice on as `2.10 times as high (…)`.

    `strict`: the interval is of the strict reading, and says so.
    """
    interval = "strict 95 % CI" if strict else "95 % CI"
    if value >= _MOST_PERCENT:
        is_known = low is not None and high is not None
        within = f" ({interval} {between(value, low, high, _plain_ratio)})" if is_known else ""
        return f"{_plain_ratio(value)} times as high{within}"
    sign, word = (1, "higher") if value >= 1 else (-1, "lower")
    moved, *ends = (100 * sign * (end - 1) for end in (value, low, high) if end is not None and math.isfinite(end))
    if len(ends) < 2:
        return f"{moved:,.0f} % {word}"
    if is_too_wide(value, low or 0.0, high or 0.0):
        return f"{moved:,.0f} % {word} ({interval} unknown)"
    least, most = sorted(ends)
    decimals = 0 if most <= least else max(0, -math.floor(math.log10((most - least) / 2)))
    decimals = min(decimals, _MOST_DECIMALS - 2)  # as many as a ratio has
    while decimals < _MOST_DECIMALS and any(round(end, decimals) == 0 != end for end in (moved, *ends)):
        decimals += 1
    return f"{moved:,.{decimals}f} % {word} ({interval} {least:,.{decimals}f} to {most:,.{decimals}f} %)"


def _plain_ratio(value: float | None) -> str:
    return times(value).removesuffix("×")


def is_too_wide(value: float, low: float, high: float, *, of_ratio: bool = True) -> bool:
    """Return whether an interval is so wide that pages, charts, the terminal and files show it as unknown.

    The interval of a ratio is too wide if it reaches below a tenth of the ratio or above ten times it; another number's
    if it reaches farther from 0 than ten times the number.
    """
    if of_ratio:
        return low * _MOST_TIMES < value or high > _MOST_TIMES * value
    return max(-low, high) > _MOST_TIMES * abs(value)


def is_saving_too_wide(value: float, low: float, high: float, whole: float = 100.0) -> bool:
    """Return `is_too_wide` for a saving in per cent, judged by the ratio that remains to be paid of the `whole`."""
    return is_too_wide(whole - value, whole - high, whole - low)


def _decimals(value: float, low: float | None, high: float | None) -> int:
    """Three significant digits of a ratio above 1, and more if its interval is so narrow, or ends so close to 1, that
    they would not show it.
    """
    decimals = max(0, 2 - max(0, math.floor(math.log10(abs(value))))) if value else 2
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return decimals
    if high > low:
        decimals = max(decimals, -math.floor(math.log10((high - low) / 2)))
    while decimals < _MOST_DECIMALS and any(round(bound, decimals) == 1 != bound for bound in (low, high)):
        decimals += 1
    return min(decimals, _MOST_DECIMALS)
