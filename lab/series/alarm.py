"""When a series has become worse: the rule of its alarms.

A night's value is compared with the nights before it, as logarithms. It is *suspicious* if the mean of the last 1, 2,
4, ... nights leaves the interval that the earlier ones predict for it, by more than a margin; windows of several nights
find a slow creep. A suspicious night is measured again within the hour, and only if the new values lie beyond the
margin too, and all of the night's together leave a strict interval, it is a change. `benchmarks.deciding.series`
measures how often that is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import stdtrit

Word = Literal["learning", "usual", "suspicious", "outlier", "fall", "rise"]

#: Nights that must show the noise before a window, those of them since the last change, and the most that are used.
LEAST_NIGHTS, LEAST_SINCE, MOST_NIGHTS = 8, 4, 60
#: A suspicious night is measured again at most so often.
MOST_AGAIN = 7
_WINDOWS = (1, 2, 4, 8, 16)
#: Chances, on one side, that the mean of a window leaves its interval although nothing changed: to measure again (which
#: windows of many nights ask for less readily, since they have time), to decide with the last re-measurement, and
#: to decide without waiting for it.
_SUSPECT, _SUSPECT_SLOWLY, _DECIDE, _DECIDE_AT_ONCE = 0.1, 0.02, 0.0004, 0.00003
_FEW = 2
#: The correlation of neighbouring nights is drawn to this value, as if this many nights had shown it.
_USUAL_CORRELATION, _ITS_NIGHTS, _MOST_CORRELATION = 0.2, 10, 0.8
#: The most of a night's variance that measuring again is believed to average out.
_MOST_OWN = 0.75


@dataclass(frozen=True)
class Measure:
    """A watched measure: a column of the view nights, its margin as a share, and the least noise assumed."""

    name: str
    label: str
    margin: float
    least_noise: float


MEASURES = (
    Measure("speedup", "speed-up", margin=0.02, least_noise=0.002),
    Measure("acceptance_length", "acceptance length", margin=0.01, least_noise=0.001),
)


@dataclass(frozen=True)
class Night:
    """The natural logarithms of one night's value and of its re-measurements, and the standard error of one of them.

    `is_outlier`: it was suspicious, and measuring again did not confirm it. It predicts nothing. `is_change`: it was
    confirmed, so that the mean of the nights before it predicts nothing any more, but their noise does.
    """

    values: tuple[float, ...]
    error: float = 0.0
    is_outlier: bool = False
    is_change: bool = False

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)


@dataclass(frozen=True)
class Finding:
    """What the rule says of a night. `low` and `high` bound the ratio predicted for one value in 95 of 100 nights;
    None while there are too few nights. `change` is the relative change of the last `window` nights' mean.
    """

    word: Word
    low: float | None = None
    high: float | None = None
    change: float | None = None
    window: int = 1

    @property
    def is_change(self) -> bool:
        return self.word in ("fall", "rise")


@dataclass(frozen=True)
class Noise:
    """The nights since the last change by mean and number, and the scatter of all around the means between changes:
    standard deviation, its degrees of freedom, and the correlation of neighbours.
    """

    mean: float
    nights: int
    deviation: float
    error: float
    correlation: float
    around: int

    @property
    def freedom(self) -> float:
        return max(2.0, self.around * (1 - self.correlation) / (1 + self.correlation))

    def of_mean(self, nights: int) -> float:
        """Return the variance of the mean of this many successive nights, whose noise is autoregressive."""
        ages = np.arange(1, nights)
        inflated = 1 + 2 * float(((1 - ages / nights) * self.correlation**ages).sum())
        return self.deviation**2 * inflated / nights

    def reach(self, chance: float, variance: float) -> float:
        """Return how far a mean with this variance lies from this mean with this chance, on one side."""
        return float(-stdtrit(self.freedom, chance)) * math.sqrt(variance + self.of_mean(self.nights))


def noise(nights: Sequence[Night], measure: Measure) -> Noise | None:
    """Return the noise of the nights that are no outliers; None if there are too few."""
    usual = [night for night in nights if not night.is_outlier]
    changes = [place for place, night in enumerate(usual) if night.is_change and place]
    values, errors = np.array([night.mean for night in usual]), np.array([night.error for night in usual])
    levels = np.split(values, changes)
    around, since = len(values) - len(levels), levels[-1]
    if around + 1 < LEAST_NIGHTS or len(since) < LEAST_SINCE:
        return None
    scattered = [level - level.mean() for level in levels]
    square = float(sum((level**2).sum() for level in scattered))
    neighbours = float(sum((level[1:] * level[:-1]).sum() for level in scattered))
    seen = neighbours / square if square else 0.0
    drawn = (len(values) * seen + _ITS_NIGHTS * _USUAL_CORRELATION) / (len(values) + _ITS_NIGHTS)
    error = math.sqrt(float((errors**2).mean()))
    deviation = max(math.sqrt(square / around), error, measure.least_noise)
    correlation = min(max(drawn, 0.0), _MOST_CORRELATION)
    return Noise(float(since.mean()), len(since), deviation, error, correlation, around)


def judge(history: Sequence[Night], tonight: Night, measure: Measure) -> Finding:
    """Judge a night by the nights before it, oldest first.

    `suspicious` asks for a re-measurement, which is then one more value of `tonight`. It is never the last word:
    with MOST_AGAIN of them a night is usual, an outlier, or a change.
    """
    nights = [*history[-MOST_NIGHTS:], tonight]
    found = noise(nights[:-1], measure)
    if found is None:
        return Finding("learning")
    reach = found.reach(0.025, found.deviation**2)
    bounds = (math.exp(found.mean - reach), math.exp(found.mean + reach))
    windows = [window for size in _WINDOWS if (window := _window(nights, size, measure)) is not None]
    outside = [window for window in windows if window.leaves(_SUSPECT if window.size <= _FEW else _SUSPECT_SLOWLY)]
    first = outside[0] if outside else windows[0]
    change = math.expm1(first.change)
    if len(tonight.values) == 1:
        return Finding("suspicious" if outside else "usual", *bounds, change, first.size)
    is_last = len(tonight.values) > MOST_AGAIN
    again = sum(tonight.values[1:]) / len(tonight.values[1:])
    for window in windows:
        deviation = again - window.noise.mean
        confirmed = abs(deviation) > window.margin and (deviation < 0) == (window.change < 0)
        if confirmed and window.leaves(_DECIDE if is_last else _DECIDE_AT_ONCE):
            word: Word = "fall" if window.change < 0 else "rise"
            return Finding(word, *bounds, math.expm1(window.change), window.size)
    still = any(abs(again - window.noise.mean) > window.margin for window in outside)
    if still and not is_last:
        return Finding("suspicious", *bounds, change, first.size)
    alone = abs(tonight.values[0] - found.mean) > found.reach(_DECIDE, found.deviation**2)
    return Finding("outlier" if alone else "usual", *bounds, change, first.size)


@dataclass(frozen=True)
class _Window:
    """The last nights as a window: how far their mean lies from that of the nights before, and with which variance."""

    size: int
    noise: Noise
    change: float
    variance: float
    margin: float

    def leaves(self, chance: float) -> bool:
        return abs(self.change) > max(self.margin, self.noise.reach(chance, self.variance))


def _window(nights: Sequence[Night], size: int, measure: Measure) -> _Window | None:
    """Return the window of the last nights; None without enough nights before it since the last change.

    A value scatters by what its night shares with its re-measurements, and by its own error, of which the mean of
    several has less.
    """
    before, recent = nights[:-size], nights[-size:]
    found = None if any(night.is_change for night in recent) else noise(before, measure)
    if found is None:
        return None
    own = min(found.error**2, _MOST_OWN * found.deviation**2)
    saved = sum(own * (1 - 1 / len(night.values)) for night in recent) / size**2
    change = sum(night.mean for night in recent) / size - found.mean
    return _Window(size, found, change, found.of_mean(size) - saved, -math.log1p(-measure.margin))
