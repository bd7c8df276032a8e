"""Whether an arm's answers are worse than the baseline's, by the scores of the same prompts: paired non-inferiority.

The interval of the difference of two paired shares is that of the score test (Tango 1998): the differences that the
test does not reject, each with the variance that discordant pairs would have if it were true. Wald's kind takes the
variance from the pairs that were seen, and 54 prompts without any discordant one said "not worse" of an arm that loses
one answer in twenty. Scores between 0 and 1 (means over repeats) count by their size, which can only widen the
interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from scipy import special

from lab.comparison.effect import CONFIDENCE, Interval
from lab.metrics.number_format import percentage

#: An arm is not worse if its mean score is certainly less than this below the baseline's.
MARGIN = 0.05
#: The chance with which `prompts_needed` decides.
POWER = 0.9
#: Halvings of the range in which an end of an interval lies.
_BISECTIONS = 50
Word = Literal["not worse", "worse", "inconclusive"]


@dataclass(frozen=True)
class Quality:
    """The verdict, the mean scores, and the difference candidate - baseline with its interval.

    `prompts_needed` is about how many prompts would decide if the scores stayed as they are; None if decided, and if
    no number would, because both scores are below the margin.
    """

    word: Word
    baseline: float
    candidate: float
    difference: Interval
    prompts: int
    better: int  # prompts that the candidate answered better
    worse: int
    margin: float = MARGIN
    prompts_needed: int | None = None

    @property
    def sentence(self) -> str:
        low, high = self.difference.low or 0.0, self.difference.high or 0.0
        change, least, most = (percentage(value, 1, sign=True) for value in (self.difference.value, low, high))
        scores = f"score {percentage(self.candidate, 1)} against {percentage(self.baseline, 1)}"
        about = f"{self.word}: {scores}, {change} [{least}, {most}], {self.prompts} prompts"
        more = "" if self.prompts_needed is None else f"; about {self.prompts_needed} would decide"
        if max(self.baseline, self.candidate) < MARGIN:
            more = "; so little cannot get worse: choose prompts that the baseline can answer"
        return f"{about}, margin {percentage(MARGIN)}{more}"


def quality(baseline: Mapping[str, float], candidate: Mapping[str, float]) -> Quality | None:
    """Judge the candidate by scores (0 to 1) by prompt; None if no prompt has both."""
    pairs = [(baseline[prompt], candidate[prompt]) for prompt in baseline if prompt in candidate]
    if not pairs:
        return None
    differences = [tried - base for base, tried in pairs]
    gained, lost = (sum(max(0.0, sign * each) for each in differences) for sign in (1, -1))
    interval = paired_difference(gained, lost, len(pairs))
    low, high = interval.low or 0.0, interval.high or 0.0
    base, tried = (math.fsum(scores) / len(pairs) for scores in zip(*pairs, strict=True))
    can_tell = max(base, tried) >= MARGIN  # with less, every arm would be not worse
    word: Word = "inconclusive"
    if can_tell:
        word = "not worse" if low > -MARGIN else "worse" if high < 0 else "inconclusive"
    return Quality(
        word,
        base,
        tried,
        interval,
        len(pairs),
        sum(each > 0 for each in differences),
        sum(each < 0 for each in differences),
        prompts_needed=_needed(gained, lost, len(pairs)) if word == "inconclusive" and can_tell else None,
    )


def paired_difference(gained: float, lost: float, pairs: int) -> Interval:
    """Return the mean difference of paired scores with its interval, from the sums of gains and losses."""
    z = _z(0.5 + 0.5 * CONFIDENCE)
    low, high = (_where(reached, gained, lost, pairs) for reached in (z, -z))
    return Interval((gained - lost) / pairs, low, high)


def _where(z: float, gained: float, lost: float, pairs: int) -> float:
    """Return the difference at which the score test's statistic, which falls with it, is z."""
    low, high = -1.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if _score(middle, gained, lost, pairs) > z else (low, middle)
    return (low + high) / 2


def _score(difference: float, gained: float, lost: float, pairs: int) -> float:
    """Return Tango's statistic of a true difference; `losing` is the likeliest share of lost prompts if it is true."""
    linear = (2 * pairs - gained + lost) * difference - gained - lost
    root = math.sqrt(max(0.0, linear**2 + 8 * pairs * lost * difference * (1 - difference)))
    losing = (root - linear) / (4 * pairs)
    variance = pairs * (2 * losing + difference * (1 - difference))
    away = gained - lost - pairs * difference
    return away / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, away) if away else 0.0


def _needed(gained: float, lost: float, pairs: int) -> int:
    """Return how many prompts with as many discordant pairs would decide, by the verdict further from its limit."""
    share, change = (gained + lost + 2) / (pairs + 2), (gained - lost) / pairs
    away = max(change + MARGIN, -change)
    return math.ceil((_z(0.5 + 0.5 * CONFIDENCE) + _z(POWER)) ** 2 * share / away**2)


def _z(chance: float) -> float:
    return float(special.ndtri(chance))
