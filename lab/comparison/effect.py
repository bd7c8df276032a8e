"""The effect of the candidate: the logarithm of the ratio and the difference, each with its variance."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from lab.comparison import spread
from lab.comparison.influence import Influence, mean
from lab.comparison.noise import RunNoise
from lab.comparison.samples import Array, Pairs
from lab.comparison.spread import Spread


@dataclass(frozen=True)
class Interval:
    """A number and its confidence interval; bounds are None if the interval is unknown."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Effect:
    """A mean over blocks; `spread` is None if the variation between runs is unknown."""

    value: float
    spread: Spread | None

    def interval(self, confidence: float) -> Interval:
        if self.spread is None:
            return Interval(self.value, None, None)
        half = float(spread.half_width(self.spread, confidence))
        return Interval(self.value, self.value - half, self.value + half)


def log_ratio(pairs: Pairs, influence: Influence = mean, noise: RunNoise | None = None) -> Effect | None:
    """Return the mean over blocks of ln(candidate / baseline), or None without a block or with a number <= 0."""
    positive = (pairs.baseline > 0).all() and (pairs.candidate > 0).all()
    if not pairs.blocks or not positive:
        return None
    effects = np.log(pairs.candidate / pairs.baseline)
    requests = _relative(pairs, influence)
    moved = None if requests is None else requests[1] - requests[0]
    if len(pairs.blocks) > 1:
        return Effect(float(effects.mean()), _over_blocks(effects, moved))
    if noise is None:
        return Effect(float(effects.mean()), None)
    alone = None if moved is None else moved[:, 0]
    return Effect(float(effects.mean()), spread.of_one_block(noise.sd_log, noise.df, alone))


def difference(pairs: Pairs, influence: Influence = mean) -> Effect | None:
    """Return the mean over blocks of candidate - baseline in the metric's unit; one block has no known spread."""
    if not pairs.blocks:
        return None
    effects = pairs.candidate - pairs.baseline
    if len(pairs.blocks) < 2:
        return Effect(float(effects.mean()), None)
    requests = _relative(pairs, influence)
    moved = None if requests is None else requests[1] * pairs.candidate - requests[0] * pairs.baseline
    return Effect(float(effects.mean()), _over_blocks(effects, moved))


def _over_blocks(effects: Array, moved: Array | None) -> Spread:
    return spread.over_blocks(effects) if moved is None else spread.over_blocks_and_prompts(effects, moved)


@functools.lru_cache(1)  # ratio and difference of the same pairs follow each other
def _relative(pairs: Pairs, influence: Influence) -> tuple[Array, Array] | None:
    """Return both arms' request influences as shares of their runs' numbers; None if unknown or 0."""
    if pairs.baseline_requests is None or pairs.candidate_requests is None:
        return None
    (base, by_base), (tried, by_tried) = influence(pairs.baseline_requests), influence(pairs.candidate_requests)
    return (by_base / base, by_tried / tried) if (base > 0).all() and (tried > 0).all() else None
