"""The effect of the candidate: the logarithm of the ratio and the difference, each with its variance."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from lab.comparison import spread
from lab.comparison.influence import Influence, mean
from lab.comparison.moderation import Scatter
from lab.comparison.samples import Array, Pairs
from lab.comparison.spread import Spread

#: The confidence of every interval, and of every claim that a table of verdicts makes.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """A number and its confidence interval; bounds are None if the interval is unknown."""

    value: float
    low: float | None
    high: float | None

    @property
    def inverted(self) -> Interval:
        """Return the inverse of a ratio. An interval so wide that a bound is 0 in floating point becomes unknown."""
        if not self.low or not self.high:
            return Interval(1 / self.value, None, None)
        return Interval(1 / self.value, 1 / self.high, 1 / self.low)


@dataclass(frozen=True)
class Effect:
    """A mean over blocks; `spread` is None if the variation between runs is unknown."""

    value: float
    spread: Spread | None

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        if self.spread is None:
            return Interval(self.value, None, None)
        half = float(spread.half_width(self.spread, confidence))
        return Interval(self.value, self.value - half, self.value + half)


def log_ratios(pairs: Pairs) -> Array | None:
    """Return ln(candidate / baseline) of each block, or None without a block or with a number <= 0."""
    positive = (pairs.baseline > 0).all() and (pairs.candidate > 0).all()
    return np.log(pairs.candidate / pairs.baseline) if pairs.blocks and positive else None


def log_ratio(pairs: Pairs, influence: Influence = mean, scatter: Scatter | None = None) -> Effect | None:
    """Return the mean of `log_ratios`. A moderated `scatter` replaces the variance of the cell's own blocks."""
    effects = log_ratios(pairs)
    if effects is None:
        return None
    requests = _relative(pairs, influence)
    moved = None if requests is None else requests[1] - requests[0]
    if len(pairs.blocks) > 1:
        own = _over_blocks(effects, moved, sum(pairs.log_variances))
        return Effect(float(effects.mean()), own if scatter is None else _moderated(own, scatter, effects.size))
    if scatter is None:
        return Effect(float(effects.mean()), None)
    alone = None if moved is None else moved[:, 0]
    return Effect(float(effects.mean()), spread.of_one_block(scatter.variance, scatter.df, alone))


def difference(pairs: Pairs, influence: Influence = mean, scatter: Scatter | None = None) -> Effect | None:
    """Return the mean over blocks of candidate - baseline in the metric's unit; one block has no known spread.

    A block's difference is its log ratio times the logarithmic mean of its two numbers. The variance of the log ratios
    is the moderated one; that of the levels, which like cells say nothing of, is the cell's own.
    """
    if not pairs.blocks:
        return None
    effects = pairs.candidate - pairs.baseline
    if len(pairs.blocks) < 2:
        return Effect(float(effects.mean()), None)
    requests = _relative(pairs, influence)
    moved = None if requests is None else requests[1] * pairs.candidate - requests[0] * pairs.baseline
    unknown = zip(pairs.log_variances, (pairs.baseline, pairs.candidate), strict=True)
    least = sum(variance * float(numbers.mean()) ** 2 for variance, numbers in unknown)
    own, logs = _over_blocks(effects, moved, least), log_ratios(pairs)
    if scatter is None or logs is None:
        return Effect(float(effects.mean()), own)
    levels, blocks = pairs.baseline * special.exprel(logs), effects.size
    parts = np.array([logs.mean() ** 2 * levels.var(ddof=1) / blocks, own.rest])
    df = spread.satterthwaite(parts, np.array([blocks - 1.0, own.rest_df]))
    of_ratio = np.asarray(levels.mean() ** 2 * scatter.variance / blocks)
    return Effect(float(effects.mean()), Spread(of_ratio, scatter.df, parts.sum(), df))


def request_variance(pairs: Pairs, influence: Influence = mean) -> float | None:
    """Return the variance of one request's relative share in a log ratio, without its prompt's own effect.

    Divided by the number of prompts, this is what requests add to the variance of a block. None with fewer than two
    blocks, or without requests.
    """
    requests = _relative(pairs, influence)
    if requests is None or pairs.baseline_requests is None or len(pairs.blocks) < 2:
        return None
    moved = requests[1] - requests[0]
    return float(moved.var(axis=1, ddof=1).mean()) * len(pairs.baseline_requests) / len(moved)


def _moderated(own: Spread, scatter: Scatter, blocks: int) -> Spread:
    return replace(own, blocks=np.asarray(scatter.variance / blocks), blocks_df=scatter.df)


def variance_of_block(pairs: Pairs, ratios: Array) -> float:
    """Return the variance of one block's log ratio, estimated from two blocks or more."""
    return max(float(ratios.var(ddof=1)), sum(pairs.log_variances))


def _over_blocks(effects: Array, moved: Array | None, least: float) -> Spread:
    """`least` is the variance of a block that is known anyway."""
    own = spread.over_blocks(effects) if moved is None else spread.over_blocks_and_prompts(effects, moved)
    return replace(own, blocks=np.maximum(own.blocks, least / effects.size))


@functools.lru_cache(1)  # ratio and difference of the same pairs follow each other
def _relative(pairs: Pairs, influence: Influence) -> tuple[Array, Array] | None:
    """Return both arms' request influences as shares of their runs' numbers; None if unknown or 0.

    Of sessions, those of all turns together, because the turns of one are alike: shape (sessions, blocks).
    """
    if pairs.baseline_requests is None or pairs.candidate_requests is None:
        return None
    (base, by_base), (tried, by_tried) = influence(pairs.baseline_requests), influence(pairs.candidate_requests)
    if not ((base > 0).all() and (tried > 0).all()):
        return None
    return _by_session(by_base / base, pairs), _by_session(by_tried / tried, pairs)


def _by_session(shares: Array, pairs: Pairs) -> Array:
    """Add the shares of each session's turns, scaled so that the mean stays."""
    if pairs.sessions is None or pairs.prompts is None:
        return shares
    added = np.zeros((pairs.prompts, shares.shape[1]))
    np.add.at(added, pairs.sessions, shares)
    return added * (pairs.prompts / len(shares))
