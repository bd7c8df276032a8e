"""How numbers are written, the same on pages, charts, the terminal and in reports."""

from __future__ import annotations

import math

_UNKNOWN = "–"
#: No interval deserves more decimals of a ratio.
_MOST_DECIMALS = 4


def number(value: float | None, digits: int = 3) -> str:
    """`value` with about `digits` significant digits and thousands apart; a dash for None and NaN."""
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    if value == 0:
        return "0"
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}"


def ratio(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """`1.48× [1.36, 1.60]`; without bounds the ratio alone, and a dash for None and NaN."""
    return " ".join(part for part in (times(value, low, high), bounds(value, low, high)) if part)


def times(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """`1.48×`: the ratio of `ratio` without its bounds."""
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    return f"{value:,.{_decimals(value, low, high)}f}×"


def bounds(value: float | None, low: float | None, high: float | None) -> str:
    """`[1.36, 1.60]`: the bounds of `ratio`, empty if one is unknown."""
    if value is None or not (_is_known(low) and _is_known(high)):
        return ""
    decimals = _decimals(value, low, high)
    return f"[{low:,.{decimals}f}, {high:,.{decimals}f}]"


def percent(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """`32.3 % [-67.6, 72.6]` of a value and its bounds in per cent; without bounds the value alone."""
    if value is None or not math.isfinite(value):
        return _UNKNOWN
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return f"{value:,.1f} %"
    decimals = 1 if high <= low else min(3, max(1, -math.floor(math.log10((high - low) / 2))))
    return f"{value:,.{decimals}f} % [{low:,.{decimals}f}, {high:,.{decimals}f}]"


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


def _is_known(bound: float | None) -> bool:
    return bound is not None and math.isfinite(bound)
