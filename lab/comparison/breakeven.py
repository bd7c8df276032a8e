"""Break-even: the concurrency at which a candidate stops paying, or begins to."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from lab.comparison.effect import Interval
from lab.metrics.number_format import bounds

Answer = Literal[
    "crosses", "crosses several times", "pays everywhere measured", "pays nowhere measured", "not measured"
]
Bounds = tuple[float, float, float]  # concurrency, and the logarithms of a gain's bounds


@dataclass(frozen=True)
class Point:
    """The gain at one concurrency; above 1 the candidate is better. Interval bounds may be None."""

    concurrency: float
    gain: Interval


@dataclass(frozen=True)
class Crossing:
    """A concurrency at which the gain is 1. `loses_above`: the candidate pays below it and not above; else vice versa.

    A bound is None if it lies outside the measured range, or if a point has no interval.
    """

    concurrency: float
    low: float | None
    high: float | None
    loses_above: bool


@dataclass(frozen=True)
class BreakEven:
    """The answer with its crossings. `sure` means that each point's interval lies on its own side of 1."""

    answer: Answer
    crossings: tuple[Crossing, ...]
    sure: bool
    measured: tuple[float, float] | None  # least and greatest concurrency


def sentence(even: BreakEven) -> str:
    """Return `pays up to concurrency 4.5 [3.2, 6.0]`, or why it is inconclusive: only decided gains count as paying."""
    if even.measured is None:
        return even.answer
    if not even.crossings:
        least, most = even.measured
        where = f"({least:.0f} to {most:.0f})" if most > least else f"({least:.0f})"
        if even.sure:
            return f"{even.answer} {where}"
        side = "better" if even.answer == "pays everywhere measured" else "worse"
        return f"inconclusive: {side} than the baseline everywhere measured {where}, but not yet significantly"
    crossed = ", ".join(f"{crossing.concurrency:.1f}" for crossing in even.crossings)
    (first, *more) = even.crossings
    if more or first.low is None or first.high is None:
        return f"inconclusive: crosses 1× near concurrency {crossed}"
    direction = "up to" if first.loses_above else "from"
    return f"pays {direction} concurrency {crossed} {bounds(first.concurrency, first.low, first.high, decimals=1)}"


def break_even(points: Sequence[Point]) -> BreakEven:
    """Interpolate the logarithm of the gain linearly on the logarithm of the concurrency.

    Raises ValueError for two points at one concurrency, and for numbers that are not positive.
    """
    ordered = sorted(points, key=lambda point: point.concurrency)
    if any(lower.concurrency == upper.concurrency for lower, upper in pairwise(ordered)):
        raise ValueError("two gains at the same concurrency: pool them first")
    if any(point.concurrency <= 0 or point.gain.value <= 0 for point in ordered):
        raise ValueError("a concurrency and a gain must be above 0")
    if not ordered:
        return BreakEven("not measured", (), sure=False, measured=None)
    turns = [index for index, (lower, upper) in enumerate(pairwise(ordered)) if _pays(lower) != _pays(upper)]
    crossings = tuple(_crossing(ordered, index) for index in turns)
    ends = (ordered[0].concurrency, ordered[-1].concurrency)
    bounds = [(_pays(point), point.gain.low if _pays(point) else point.gain.high) for point in ordered]
    sure = all(bound is not None and (bound > 1) == pays and bound != 1 for pays, bound in bounds)
    return BreakEven(_answer(ordered, crossings), crossings, sure, ends)


def _answer(ordered: Sequence[Point], crossings: tuple[Crossing, ...]) -> Answer:
    if crossings:
        return "crosses" if len(crossings) == 1 else "crosses several times"
    return "pays everywhere measured" if _pays(ordered[0]) else "pays nowhere measured"


def _pays(point: Point) -> bool:
    return point.gain.value > 1


def _crossing(ordered: Sequence[Point], index: int) -> Crossing:
    left, right = ordered[index], ordered[index + 1]
    at = _zero(left.concurrency, math.log(left.gain.value), right.concurrency, math.log(right.gain.value))
    band = _band(ordered)
    low = _edge(band[index + 1], band[index::-1]) if band else None
    high = _edge(band[index], band[index + 1 :]) if band else None
    return Crossing(at, low, high, loses_above=_pays(left))


def _band(ordered: Sequence[Point]) -> list[Bounds]:
    """Return the bounds of every point; empty if one point has none, because its interval may reach any value."""
    bands = [
        (point.concurrency, math.log(point.gain.low), math.log(point.gain.high))
        for point in ordered
        if point.gain.low and point.gain.high
    ]
    return bands if len(bands) == len(ordered) else []


def _edge(inner: Bounds, outwards: Sequence[Bounds]) -> float | None:
    """Return where the band, joined by lines, first excludes 0 going outwards; `inner` is the point just inside."""
    for point in outwards:
        if point[1] > 0 or point[2] < 0:
            bound = 1 if point[1] > 0 else 2
            return _zero(inner[0], inner[bound], point[0], point[bound])
        inner = point
    return None


def _zero(left: float, left_value: float, right: float, right_value: float) -> float:
    """Return where a line over ln(x) crosses 0 between two points of different sign."""
    share = left_value / (left_value - right_value)
    return float(np.exp(np.log(left) + share * (np.log(right) - np.log(left))))
