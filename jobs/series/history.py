"""The nights of a series as the rule of alarms takes them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from jobs.series.store import FINDINGS, Night
from lab.series import alarm
from lab.series.alarm import MEASURES, Finding, Measure

_Z = 1.96  # of the 95 % interval of a night


def judge(nights: Sequence[Night], night_id: str, measure: Measure) -> Finding | None:
    """Judge a night of an arm by its re-measurements and the arm's nights before it; None without a value."""
    night = next(night for night in nights if night.night_id == night_id)
    if getattr(night, measure.name) is None:
        return None
    before = [each for each in nights if each.again_of is not None or each.due_at < night.due_at]
    return alarm.judge(history(before, measure), _as_night(night, nights, measure), measure)


def history(nights: Sequence[Night], measure: Measure) -> list[alarm.Night]:
    """Return the nights with a value."""
    originals = [night for night in nights if night.again_of is None and getattr(night, measure.name) is not None]
    return [_as_night(night, nights, measure) for night in originals]


def error_of(low: float | None, high: float | None) -> float:
    """Return the standard error of a ratio's logarithm by its 95 % interval; 0 if that is unknown."""
    return math.log(high / low) / (2 * _Z) if low and high else 0.0


def _as_night(night: Night, nights: Sequence[Night], measure: Measure) -> alarm.Night:
    again = [each for each in nights if each.again_of == night.night_id]
    values = [value for each in (night, *again) if (value := getattr(each, measure.name)) is not None]
    error = error_of(night.low, night.high) if measure is MEASURES[0] else 0.0
    word = _finding(night, measure)
    return alarm.Night(tuple(map(math.log, values)), error, word == "outlier", word in ("fall", "rise"))


def _finding(night: Night, measure: Measure) -> str | None:
    word: str | None = getattr(night, FINDINGS[measure.name])
    return word
