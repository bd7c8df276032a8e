"""The variance of a mean over repeat blocks and prompts, or over rounds and engine starts.

Arrays may have further leading axes, so that a simulation computes thousands of experiments at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from lab.comparison.samples import Array

#: Smaller p values are reported as this one.
LEAST_P = 1e-12


@dataclass(frozen=True)
class Spread:
    """Two variances whose sum is that of the mean, each with its degrees of freedom.

    More repeats reduce the variance of the blocks, or of the rounds of a cell measured in rounds. They leave the rest:
    that of the prompts, or of the engine starts of a cell measured in rounds.
    """

    blocks: Array
    blocks_df: float | Array
    rest: Array
    rest_df: float | Array


def over_blocks(effects: Array) -> Spread:
    """Spread of effects of shape (..., blocks), two blocks or more: the paired t test's s^2 / n with n - 1."""
    count = effects.shape[-1]
    variance = np.asarray(effects.var(axis=-1, ddof=1) / count)
    return Spread(variance, count - 1, np.zeros_like(variance), math.inf)


def over_blocks_and_prompts(effects: Array, influences: Array) -> Spread:
    """Spread with blocks and prompts as crossed random effects (Cornfield & Tukey 1956, Clark 1973).

    `influences` (..., prompts, blocks) belong to `effects`. What a prompt repeats in every block is its own effect: the
    variance component of prompts is the excess of their mean square over the residual's, and never negative.
    """
    prompts, blocks = influences.shape[-2:]
    again = influences.mean(axis=-1, keepdims=True)
    of_prompts = blocks * (again**2).sum(axis=(-2, -1)) / (prompts - 1)
    residual = ((influences - again) ** 2).sum(axis=(-2, -1)) / ((prompts - 1) * (blocks - 1))
    part = np.maximum(of_prompts - residual, 0.0) / (prompts * blocks)
    alone = over_blocks(effects)
    return Spread(alone.blocks, alone.blocks_df, np.asarray(part), prompts - 1)


def of_one_block(variance: float, df: float, influences: Array | None) -> Spread:
    """Spread of a single run per arm; the log ratio's `variance` is known from elsewhere.

    `influences` (..., prompts) are in sending order.

    The variance includes some of the requests' own scatter, so the result errs on the wide side.
    """
    if influences is None:
        return Spread(np.array(variance), df, np.array(0.0), math.inf)
    prompts, prompts_df = batch_means(influences)
    return Spread(np.full_like(prompts, variance), df, prompts, prompts_df)


def batch_means(series: Array) -> tuple[Array, int]:
    """Return the variance of a mean of values whose neighbours may be correlated, and its degrees of freedom.

    `series` (..., n) is cut into about the square root of n batches, whose means are nearly independent: Law,
    Simulation Modeling and Analysis, 9.5.3; Flegal & Jones 2010, doi:10.1214/09-AOS735.
    """
    count = series.shape[-1]
    batches = max(math.isqrt(count), 2)
    length = count // batches
    means = series[..., : batches * length].reshape(*series.shape[:-1], batches, length).mean(axis=-1)
    return np.asarray(means.var(axis=-1, ddof=1) / batches), batches - 1


def half_width(spread: Spread, confidence: float | Array) -> Array:
    """Return half the interval's width, of the shape of the variances.

    Each variance has its own Student factor, and they are averaged by variance (Cochran & Cox 1950, as in SAS). The
    result is never narrower than for the blocks alone, which is exact where the rest makes no difference.
    """
    return averaged(spread, student(spread.blocks_df, confidence), student(spread.rest_df, confidence))


def averaged(spread: Spread, by_blocks: Array, by_rest: Array) -> Array:
    """Half the interval's width for given Student factors of blocks and the rest."""
    error = np.sqrt(spread.blocks + spread.rest)
    weighted = by_blocks * spread.blocks + by_rest * spread.rest
    mean = np.divide(weighted, error, out=np.zeros_like(error), where=error > 0)
    return np.asarray(np.maximum(mean, by_blocks * np.sqrt(spread.blocks)), dtype=np.float64)


def satterthwaite(variances: Array, dfs: Array) -> float:
    """Return the degrees of freedom of a sum of estimated variances: Satterthwaite 1946, doi:10.2307/3002019."""
    squares = float((variances**2 / dfs).sum())
    return float(variances.sum()) ** 2 / squares if squares else float(dfs.max())


def together(spreads: Sequence[Spread]) -> Spread:
    """Stack single spreads into one of shape (spreads,)."""
    columns = zip(*map(_columns, spreads), strict=True)
    return Spread(*(np.array(column, dtype=np.float64) for column in columns))


def p_values(distances: Array, spread: Spread) -> Array:
    """Return 1 - the confidence at which each interval just reaches its distance; 1 for distances <= 0.

    Shape (spreads,). All are computed at once, because a page waits for a table of them.
    """
    values = np.where(distances > 0, 0.0, 1.0)
    alone = (distances > 0) & (spread.rest <= 0) & (spread.blocks > 0)  # the same root in closed form
    scaled = -distances[alone] / np.sqrt(spread.blocks[alone])
    values[alone] = np.maximum(2 * special.stdtr(np.asarray(spread.blocks_df)[alone], scaled), LEAST_P)
    both = (distances > 0) & (spread.rest > 0)
    if both.any():
        values[both] = _roots(distances[both], *(np.asarray(column)[both] for column in _columns(spread)))
    return values


def _columns(spread: Spread) -> tuple[float | Array, ...]:
    return spread.blocks, spread.blocks_df, spread.rest, spread.rest_df


def _roots(distances: Array, *columns: Array) -> Array:
    """Find roots over the Student factor of the blocks, in which the half-width is nearly linear."""
    from scipy.optimize import elementwise  # noqa: PLC0415 - a fifth of a second of a processor, for percentiles alone

    def beyond(factor: Array, distance: Array, *of: Array) -> Array:
        around = Spread(*of)
        by_rest = -special.stdtrit(around.rest_df, special.stdtr(around.blocks_df, -factor))
        return averaged(around, factor, np.asarray(by_rest, dtype=np.float64)) - distance

    values, blocks_df = np.full_like(distances, LEAST_P), columns[1]
    most = np.asarray(-special.stdtrit(blocks_df, LEAST_P / 2), dtype=np.float64)
    reached = beyond(most, distances, *columns) > 0
    arguments = tuple(column[reached] for column in (distances, *columns))
    root = elementwise.find_root(beyond, (np.zeros(reached.sum()), most[reached]), args=arguments)
    values[reached] = 2 * special.stdtr(blocks_df[reached], -root.x)
    return values


def student(df: float | Array, confidence: float | Array) -> Array:
    """scipy.stats.t.ppf without its argument checks, which took most of a table's time."""
    return np.asarray(special.stdtrit(df, (1 + confidence) / 2), dtype=np.float64)
