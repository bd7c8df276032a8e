"""Which version of an engine first made a study worse: what is measured next, and what the outcomes say.

A version is good if it is nearer to the good end than to the bad one, by a test on the blocks' logarithms with the
scatter of all versions. It is measured until that is certain, or inconclusive. The first bad version is found by
halving; then a version in the longest stretch on each side that was only concluded must not contradict it. All of it is
a function of the outcomes so far: a killed bisect continues as if nothing had happened.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.special import stdtr

from lab.metrics.number_format import counted, percentage
from lab.series.alarm import Measure

Word = Literal["unmeasured", "undecided", "good", "bad", "inconclusive"]
#: The most measurements of one version.
MOST_MEASUREMENTS = 8
#: The chance of a version on the wrong side that is allowed, over all looks at it.
_WRONG = 0.01
_DECIDED: tuple[Word, ...] = ("good", "bad")
_OPEN: tuple[Word, ...] = ("unmeasured", "undecided")


@dataclass(frozen=True)
class Tried:
    """One version: the logarithms of its blocks' values, from how many measurements, or why it has none.

    `failed`: it cannot be installed or measured at all.
    """

    name: str
    blocks: tuple[float, ...] = ()
    measurements: int = 0
    failed: str | None = None

    @property
    def is_spent(self) -> bool:
        return self.failed is not None or self.measurements >= MOST_MEASUREMENTS

    @property
    def mean(self) -> float:
        return sum(self.blocks) / len(self.blocks)


@dataclass(frozen=True)
class Step:
    """The index of the version to measure next, and why."""

    version: int
    why: str


@dataclass(frozen=True)
class End:
    """The result of a bisect. `first_bad` is None if inconclusive; `wrong` is the chance that it is another version."""

    sentence: str
    first_bad: str | None = None
    wrong: float | None = None


def next_step(tried: Sequence[Tried], measure: Measure) -> Step | End:
    """Decide by the versions, the good end first, of which there are two or more."""
    last = len(tried) - 1
    ends = _ends(tried, measure)
    if ends is not None:
        return ends
    good, bad, path = 0, last, {0, last}
    skipped: set[int] = set()
    while between := [version for version in range(good + 1, bad) if version not in skipped]:
        middle = min(between, key=lambda version: abs(2 * version - good - bad))
        word = judge(tried, middle, measure)[0]
        if word in _OPEN:
            return _measured(tried, middle, f"halfway between {tried[good].name} and {tried[bad].name}")
        path.add(middle)
        if word == "good":
            good = middle
        elif word == "bad":
            bad = middle
        else:
            skipped.add(middle)
    checks = [_concluded(path, 0, good), _concluded(path, bad, last)]
    for check in checks:
        if check is not None and judge(tried, check, measure)[0] in _OPEN:
            return _measured(tried, check, "to see whether it contradicts the result")
    return _end(tried, measure, good, bad)


def _measured(tried: Sequence[Tried], version: int, why: str) -> Step:
    """Measure this version, or an end that has fewer measurements: it is compared with both."""
    fewest = min((version, 0, len(tried) - 1), key=lambda place: tried[place].measurements)
    return Step(fewest, why if fewest == version else f"{tried[version].name} is not decided by so few blocks of it")


def judge(tried: Sequence[Tried], version: int, measure: Measure) -> tuple[Word, float]:
    """Say on which side a version is, and the chance that it is on the other one. The ends are where they are said to
    be.
    """
    its, last = tried[version], len(tried) - 1
    if not its.blocks:
        return ("inconclusive" if its.is_spent else "unmeasured"), 1.0
    if version in (0, last):
        return ("good" if version == 0 else "bad"), 0.0
    ends = (tried[0], tried[last])
    distance = its.mean - (ends[0].mean + ends[1].mean) / 2
    share = 1 / len(its.blocks) + sum(1 / len(each.blocks) for each in ends) / 4
    wrong = _chance(tried, measure, distance, share)
    if wrong <= _WRONG:
        return ("good" if distance > 0 else "bad"), wrong
    return ("inconclusive" if its.is_spent else "undecided"), wrong


def _chance(tried: Sequence[Tried], measure: Measure, distance: float, share: float) -> float:
    """Return the chance of such a distance, or one further off, on one side, at any of the looks that there may be."""
    groups = [np.array(each.blocks) for each in tried if each.blocks]
    freedom = sum(len(group) - 1 for group in groups)
    square = sum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    if freedom == 0:
        return 1.0
    deviation = max(math.sqrt(square / freedom), measure.least_noise)
    single = float(stdtr(freedom, -abs(distance) / (deviation * math.sqrt(share))))
    return min(1.0, single * MOST_MEASUREMENTS)


def _apart(tried: Sequence[Tried], measure: Measure) -> tuple[float, float]:
    """Return how much better the good end is, and the chance that it is not."""
    good, bad = tried[0], tried[-1]
    distance = good.mean - bad.mean
    share = 1 / len(good.blocks) + 1 / len(bad.blocks)
    return distance, _chance(tried, measure, distance, share)


def _ends(tried: Sequence[Tried], measure: Measure) -> Step | End | None:
    """Return what to do until the two ends are known to differ; None then."""
    ends = {0: "the good end", len(tried) - 1: "the bad end"}
    for version, words in ends.items():
        if not tried[version].blocks:
            if tried[version].is_spent:
                failed = tried[version].failed or "no block of it has a value"
                return End(f"nothing can be told: {words}, {tried[version].name}, has no value: {failed}")
            return Step(version, words)
    distance, wrong = _apart(tried, measure)
    margin = -math.log1p(-measure.margin)
    if abs(distance) > margin and wrong <= _WRONG:
        if distance > 0:
            return None
        return End(
            f"{tried[0].name} is said to be good and {tried[-1].name} bad, but the {measure.label} is "
            f"{math.exp(tried[0].mean):.3f} in the first and {math.exp(tried[-1].mean):.3f} in the second"
        )
    version = min(ends, key=lambda version: tried[version].measurements)
    if tried[version].is_spent:
        return End(
            f"there is nothing to find: the {measure.label} of {tried[0].name} and {tried[-1].name} differs by "
            f"{percentage(-math.expm1(-distance), 1, sign=True)}, which is not certain or less than "
            f"{percentage(measure.margin)}"
        )
    return Step(version, f"{ends[version]}: the two ends are not known to differ yet")


def _concluded(path: set[int], first: int, last: int) -> int | None:
    """Return the middle of the longest stretch, from one version to another, in which halving measured none."""
    known = sorted(version for version in path if first <= version <= last)
    longest = max(pairwise(known), key=lambda pair: pair[1] - pair[0], default=(0, 0))
    return (longest[0] + longest[1]) // 2 if longest[1] - longest[0] > 1 else None


def _end(tried: Sequence[Tried], measure: Measure, good: int, bad: int) -> End:
    words = {version: judge(tried, version, measure) for version in range(len(tried))}
    later_good = [tried[version].name for version in range(bad, len(tried)) if words[version][0] == "good"]
    earlier_bad = [tried[version].name for version in range(good) if words[version][0] == "bad"]
    sides = f"{tried[good].name} is good and {tried[bad].name} bad"
    if later_good or earlier_bad:
        but = [f"{', '.join(later_good)} after it good"] if later_good else []
        but += [f"{', '.join(earlier_bad)} before it bad"] if earlier_bad else []
        return End(f"there is more than one change: {sides}, but {' and '.join(but)}")
    wrong = min(1.0, _apart(tried, measure)[1] + sum(chance for word, chance in words.values() if word in _DECIDED))
    fell = -math.expm1(tried[bad].mean - tried[good].mean)
    sure = f"wrong with a chance of {wrong:.2g} at most, if there was only one change"
    if bad - good == 1:
        sentence = (
            f"the first bad version is {tried[bad].name}: the {measure.label} fell by {percentage(fell, 1)} ({sure})"
        )
        return End(sentence, tried[bad].name, wrong)
    reasons = [
        f"{each.name} is inconclusive" if each.failed is None else f"{each.name} could not be measured: {each.failed}"
        for each in tried[good + 1 : bad]
    ]
    among = ", ".join(tried[version].name for version in range(good + 1, bad + 1))
    return End(f"the first bad version is one of {among}: {sides}; {'; '.join(reasons)} ({sure})", None, wrong)


def described(tried: Sequence[Tried], version: int, measure: Measure) -> str:
    """Say `1.0.3: bad, acceptance length 2.000 in 2 blocks`."""
    its = tried[version]
    if its.failed is not None and not its.blocks:
        return f"{its.name}: {its.failed}"
    if not its.blocks:
        return f"{its.name}: no block has a value"
    word = "measured" if not all(tried[end].blocks for end in (0, -1)) else judge(tried, version, measure)[0]
    return f"{its.name}: {word}, {measure.label} {math.exp(its.mean):.3f} in {counted(len(its.blocks), 'block')}"
