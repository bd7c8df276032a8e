"""Durations as people write them: `45 min`, `1 h 30 min`, `90 s`."""

from __future__ import annotations

import re

_UNITS_S = {"h": 3600, "min": 60, "s": 1}
_WHOLE = re.compile(r"(?:(\d{1,4}) ?h)? ?(?:(\d{1,5}) ?min)? ?(?:(\d{1,6}) ?s)?")


def parse_duration_s(text: str) -> int:
    """Return the seconds. Raises ValueError for anything but hours, minutes and seconds in this order, or for none."""
    match = _WHOLE.fullmatch(text.strip())
    seconds = 0
    if match is not None:
        seconds = sum(int(part or 0) * unit_s for part, unit_s in zip(match.groups(), _UNITS_S.values(), strict=True))
    if not seconds:
        raise ValueError(f"{text!r} is not a duration: write it like 45 min, 1 h 30 min or 90 s")
    return seconds


def rough_duration(seconds: float) -> str:
    """Return a forecast in minutes, or in hours from two of them on: `45 min`, `23 h`."""
    minutes = max(1, round(seconds / 60))
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def duration_text(seconds: int) -> str:
    """Return the duration as `parse_duration_s` reads it."""
    parts = []
    for unit, unit_s in _UNITS_S.items():
        count, seconds = divmod(seconds, unit_s)
        parts += [f"{count} {unit}"] * (count > 0)
    return " ".join(parts)
