"""Whether an arm's answers are worse than the baseline's, by the scores of the same prompts: paired non-inferiority.

The interval of the difference of two paired shares follows Bonett and Price 2012: Wald's with one added to each kind of
discordant pair, which holds its level from a few prompts on. Scores between 0 and 1 (means over repeats) count by their
size, which can only widen the interval.
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
#: The chance with which `prompts_needed` shows an equal arm to be not worse.
POWER = 0.9
Word = Literal["not worse", "worse", "inconclusive"]


@dataclass(frozen=True)
class Quality:
    """The verdict, the mean scores, and the difference candidate - baseline with its interval.

    `prompts_needed` is about how many prompts would show an equally good arm to be not worse; None if decided, and
    if no number would, because both scores are below the margin.
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
        prompts_needed=_needed(gained + lost, len(pairs)) if word == "inconclusive" and can_tell else None,
    )


def paired_difference(gained: float, lost: float, pairs: int) -> Interval:
    """Return the mean difference of paired scores with its interval, from the sums of gains and losses."""
    z, padded = _z(0.5 + 0.5 * CONFIDENCE), pairs + 2
    up, down = (gained + 1) / padded, (lost + 1) / padded
    half = z * math.sqrt(max(0.0, up + down - (up - down) ** 2) / padded)
    centre = up - down
    return Interval((gained - lost) / pairs, max(-1.0, centre - half), min(1.0, centre + half))


def _needed(discordant: float, pairs: int) -> int:
    """Return how many prompts show an equal arm of as many discordant pairs to be not worse, with chance POWER."""
    share = (discordant + 2) / (pairs + 2)
    return math.ceil((_z(0.5 + 0.5 * CONFIDENCE) + _z(POWER)) ** 2 * share / MARGIN**2)


def _z(chance: float) -> float:
    return float(special.ndtri(chance))
