"""Cells measured in many short rounds: the mean of the rounds' log ratios, and how far rounds and starts scatter.

A round is a short window of every arm, in random order, so its log ratio is free of what is slower than a round. Rounds
of one number are compared across repeats, which send the same prompts in them: what repeats in every repeat is a
property of the prompts, and is no evidence of precision. What an engine start shifts is the level above
(`lab.comparison.starts`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lab.comparison.effect import Effect
from lab.comparison.moderation import Scatter
from lab.comparison.samples import Array, Pairs
from lab.comparison.spread import Spread, satterthwaite
from lab.comparison.starts import Lying, StartScatter, apart


def by_round(pairs: Pairs) -> Array | None:
    """Return ln(candidate / baseline) of shape (repeats, rounds), NaN where a round lacks an arm.

    None if the cell was not measured in rounds, or a number is not positive.
    """
    if pairs.rounds is None:
        return None
    base, tried = pairs.rounds
    if (base <= 0).any() or (tried <= 0).any():  # false of NaN
        return None
    return np.asarray(np.log(tried / base), dtype=np.float64)


def mean(rounds: Array) -> float:
    """Return the mean over repeats of the mean over their rounds."""
    return float(np.mean(np.nanmean(rounds, axis=1)))


def variance(rounds: Array) -> tuple[float, float]:
    """Return the variance that rounds give the mean, and its degrees of freedom: rounds of a repeat - 1.

    Deviations from each repeat's mean are added over the repeats, round by round: the variance of clustered samples
    (Cameron & Miller 2015, doi:10.3368/jhr.50.2.317), the clusters being rounds of one number. Each repeat pays for its
    own mean, so that one with fewer rounds does not look certain; it has few degrees of freedom, too.
    """
    counts = np.isfinite(rounds).sum(axis=1, keepdims=True)
    deviations = (rounds - np.nanmean(rounds, axis=1, keepdims=True)) * np.sqrt(counts / (counts - 1))
    shares = deviations / (counts * len(rounds))
    sums = np.nansum(shares, axis=0)[np.isfinite(rounds).any(axis=0)]
    df = satterthwaite(np.nansum(shares**2, axis=1), counts[:, 0] - 1.0)
    return float((sums**2).sum()), min(df, sums.size - 1.0)


def of_one(rounds: Array) -> tuple[float, float]:
    """Return the variance of a single round of all repeats, with its degrees of freedom, to moderate by like cells."""
    of_mean, df = variance(rounds)
    return of_mean * _usual_count(rounds), df


def _usual_count(rounds: Array) -> float:
    """Return how many rounds a repeat has: of unequal numbers that by which the variance of the mean falls."""
    return float(len(rounds) / (1 / np.isfinite(rounds).sum(axis=1)).sum())


def effects(pairs: Pairs, rounds: Array, scatter: Scatter | None, starts: StartScatter) -> tuple[Effect, Effect]:
    """Return the log ratio and the difference. A moderated `scatter`, of one round, replaces that of the cell's own."""
    (base, tried), (base_weight, tried_weight) = pairs.rounds or (rounds, rounds), pairs.start_weights
    own, df = variance(rounds)
    factor = 1.0 if scatter is None or own <= 0 else scatter.variance / (own * _usual_count(rounds))
    df = df if scatter is None else scatter.df

    def effect(numbers: Array, weight: float) -> Effect:
        of_rounds, of_starts = variance(numbers)[0] * factor, starts.variance * weight
        return Effect(mean(numbers), Spread(np.asarray(of_rounds), df, np.asarray(of_starts), starts.df))

    of_difference = base_weight * mean(base) ** 2 + tried_weight * mean(tried) ** 2
    return effect(rounds, base_weight + tried_weight), effect(tried - base, of_difference)


def starts_apart(rounds: Array, starts: Sequence[Sequence[int]]) -> Lying:
    """Return how far apart the starts of a cell lie. `starts`: the repeats on each."""
    by_start = [float(np.nanmean(rounds[list(repeats)], axis=1).mean()) for repeats in starts]
    return apart(by_start, _noise(rounds) * len(starts) / len(rounds))


def _noise(rounds: Array) -> float:
    """Return the variance that rounds give the mean of a repeat, without what all repeats have in common; 0 if
    unknown, which errs on the wide side.
    """
    whole = rounds[:, np.isfinite(rounds).all(axis=0)]
    repeats, count = whole.shape
    if repeats < 2 or count < 2:
        return 0.0
    left = whole - whole.mean(axis=0) - whole.mean(axis=1, keepdims=True) + whole.mean()
    return float((left**2).sum() / ((repeats - 1) * (count - 1) * count))
