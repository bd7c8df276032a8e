"""Two arms over the same workload and load: ratio and difference of a metric, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lab.comparison.effect import Effect, Interval, difference, log_ratio
from lab.comparison.influence import Influence, mean
from lab.comparison.noise import RunNoise
from lab.comparison.samples import Pairs, RunSample, pair
from lab.metrics.definition import Better

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """`ratio` is candidate / baseline whichever direction is better; None without pairs or with a number <= 0.

    `effect` is its natural logarithm with its variance; verdicts are based on it. `basis` says in words what the
    interval was computed from.
    """

    better: Better
    blocks: int
    prompts: int | None  # paired; None if the interval does not generalise to other prompts
    ratio: Interval | None
    difference: Interval | None
    effect: Effect | None
    basis: str

    @property
    def gain(self) -> Interval | None:
        """The ratio oriented so that above 1 the candidate is better."""
        if self.ratio is None or self.better == "higher":
            return self.ratio
        low, high = self.ratio.low, self.ratio.high
        return Interval(1 / self.ratio.value, None if high is None else 1 / high, None if low is None else 1 / low)


def compare(
    baseline: Sequence[RunSample],
    candidate: Sequence[RunSample],
    better: Better,
    *,
    influence: Influence = mean,
    noise: RunNoise | None = None,
    confidence: float = CONFIDENCE,
) -> Comparison:
    """Compare two arms. Raises ValueError if an arm has two runs in a block.

    `influence` belongs to the metric: `influence.mean`, or `influence.percentile(0.5)` for a median. `noise` is used
    with a single block only: two or more show by themselves how much runs differ.
    """
    pairs = pair(baseline, candidate)
    effect = log_ratio(pairs, influence, noise)
    ratio = None if effect is None else _exponential(effect.interval(confidence))
    changed = _difference(pairs, ratio, influence, confidence)
    prompts = None if pairs.baseline_requests is None else pairs.baseline_requests.shape[0]
    return Comparison(better, len(pairs.blocks), prompts, ratio, changed, effect, _basis(pairs, prompts, noise))


def _difference(pairs: Pairs, ratio: Interval | None, influence: Influence, confidence: float) -> Interval | None:
    """The difference; for a single block its bounds follow from those of the ratio and the measured baseline."""
    found = difference(pairs, influence)
    if found is None or found.spread is not None or ratio is None or ratio.low is None or ratio.high is None:
        return None if found is None else found.interval(confidence)
    base = float(pairs.baseline.mean())
    return Interval(found.value, base * (ratio.low - 1), base * (ratio.high - 1))


def _exponential(interval: Interval) -> Interval:
    low, high = (None if bound is None else math.exp(min(bound, 700.0)) for bound in (interval.low, interval.high))
    return Interval(math.exp(interval.value), low, high)


def _basis(pairs: Pairs, prompts: int | None, noise: RunNoise | None) -> str:
    if not pairs.blocks:
        return "no repeat has both arms"
    over = "" if prompts is None else f" and {prompts} prompts"
    if len(pairs.blocks) > 1:
        return f"{len(pairs.blocks)} repeats{over}"
    return f"1 repeat{over}, with {noise.source}" if noise else "1 repeat, which cannot show how much runs differ"
