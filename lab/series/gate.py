"""The gate for CI: whether a study is worse than a series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lab.series.alarm import Measure, Night, noise

Word = Literal["worse", "not worse", "inconclusive"]
#: On each side: the interval holds the change in 95 of 100 studies.
_CHANCE = 0.025


@dataclass(frozen=True)
class Gated:
    """A study's change against a series by one measure, as a share with its 95 % interval; None if it is unknown."""

    measure: Measure
    limit: float
    word: Word
    nights: int
    change: float | None = None
    low: float | None = None
    high: float | None = None


def against(history: Sequence[Night], value: float | None, error: float, measure: Measure, limit: float) -> Gated:
    """Compare a study's value with the nights of a series since its last change.

    It scatters like a night of the series, or as its own standard `error` says if that is more. `worse`: the whole
    interval lies below 1 - limit; `not worse`: at or above it.
    """
    found = noise(history, measure)
    if found is None or value is None:
        return Gated(measure, limit, "inconclusive", len(history))
    change, reach = math.log(value) - found.mean, found.reach(_CHANCE, max(found.deviation, error) ** 2)
    least = math.log1p(-limit)
    word: Word = "worse" if change + reach < least else "not worse" if change - reach >= least else "inconclusive"
    around = (math.expm1(change + side) for side in (0.0, -reach, reach))
    return Gated(measure, limit, word, found.nights, *around)


def verdict(gated: Sequence[Gated]) -> Word:
    """Return one answer: worse by any measure, not worse by all, or inconclusive."""
    words = {each.word for each in gated}
    return "worse" if "worse" in words else "not worse" if words == {"not worse"} else "inconclusive"
