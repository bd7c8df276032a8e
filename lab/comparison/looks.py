"""The price of looking at a comparison after every block and stopping when it is decided.

Each look is a chance of a false call, so a study that is measured until decided pays for its looks: the chance that it
allows itself in all is spent look by look (Lan & DeMets 1983, doi:10.1093/biomet/70.3.659, with their function of
Pocock's kind, which spends much of it early). Boundaries are those of a random walk that is looked at after every
block; p values of Student's t are held against them, as Jennison & Turnbull (2000, chapter 11) propose. A p value that
was paid for is the smallest level at which the walk would have crossed its boundary at this look (Liu & Anderson 2008,
doi:10.1198/016214508000000986): it is corrected for the table like any other.

That is a bound, and comparisons that moderate each other's variances stay far below it. Their p values err high where
looks are early and levels strict, because Student's t has heavier tails than the estimates of their variances. And what
shows nothing is given up and not looked at again, which makes futility binding (Pampallona & Tsiatis 1994,
doi:10.1016/0378-3758(94)90187-2). So in a table of many the levels of all looks are raised by a factor calibrated by
simulation, the more the stricter the table's correction makes them (`raised`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lab.comparison import spread
from lab.comparison.effect import Effect
from lab.comparison.samples import Array
from lab.comparison.spread import Spread
from lab.study.study import MOST_LOOKS

#: Blocks before the first look, and the blocks by which everything is spent. The error rates that studies were promised
#: depend on them.
FIRST_LOOK, LAST_LOOK = 2, MOST_LOOKS
#: Levels for which boundaries are computed; between them they are interpolated.
_LEVELS = np.concatenate((10.0 ** np.arange(-12, -2), [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95]))
#: Levels are raised by this factor for each like claim beyond the second, up to the second number. Chosen by
#: simulation, so that of tables without an effect at most 5 % hold a call in every world
#: (tests/lab/comparison/simulations).
_RAISED_BY_ONE, _RAISED_AT_MOST = 0.25, 2.5
#: The prior: an arm makes no difference with this probability, or else one whose logarithm is usually this.
_NONE_AT_FIRST, _USUAL_EFFECT = 0.5, 0.2
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_BISECTIONS = 60


def raised(like: int) -> float:
    """The factor for a comparison among this many claims of its table that moderate each other's variances.

    1 for one or two, and for a comparison that stands on its own scatter: its Student's t is exact.
    """
    return min(max(1.0, 1 + _RAISED_BY_ONE * (like - 2)), _RAISED_AT_MOST)


def paid(p_values: Array, blocks: Array, like: Sequence[int]) -> Array:
    """Adjust the p values of cells for interim analyses: after each of these numbers of blocks.

    `like` has, for each p value, the number of like claims that it is one of (`raised`).
    """
    log_p_values = [
        np.interp(math.log(p), _log_bounds(raised(count))[row], np.log(_LEVELS), right=0.0) if p > 0 else -math.inf
        for p, row, count in zip(p_values.tolist(), _row(blocks), like, strict=True)
    ]
    return np.asarray(np.exp(np.array(log_p_values)), dtype=np.float64)


def unpaid(level: float, blocks: Array, like: int) -> Array:
    """Return the p value that reaches the level at each number of blocks: the inverse of `paid`."""
    return np.asarray(_unpaid_at(level, raised(like))[_row(blocks)], dtype=np.float64)


@functools.lru_cache(256)
def _unpaid_at(level: float, factor: float) -> Array:
    """Return the `unpaid` p value at each look."""
    of_looks = [np.interp(math.log(level), np.log(_LEVELS), of_look) for of_look in _log_bounds(factor)]
    return np.asarray(np.exp(of_looks), dtype=np.float64)


@functools.lru_cache(16)
def _log_bounds(factor: float) -> Array:
    """Of shape (looks, levels). Whatever the factor, a look costs: no level is raised above the one that is paid."""
    raised_levels = np.minimum(_nominal_levels() * factor, _LEVELS)
    return np.asarray(np.log(raised_levels), dtype=np.float64)


def _row(blocks: Array) -> NDArray[np.intp]:
    return np.asarray(np.clip(blocks, FIRST_LOOK, LAST_LOOK) - FIRST_LOOK, dtype=np.intp)


def _spent(blocks: int) -> float:
    """Return the share of the level that is spent up to this look."""
    return math.log1p((math.e - 1) * blocks / LAST_LOOK)


@functools.cache
def _nominal_levels() -> Array:
    """The p value needed at each look, two-sided, of shape (looks, levels): Armitage, McPherson & Rowe 1969.

    The density of the walk that has not crossed yet is integrated from look to look.
    """
    half = -special.ndtri(_LEVELS * _spent(FIRST_LOOK) / 2) * math.sqrt(FIRST_LOOK)
    levels, walk = [_LEVELS * _spent(FIRST_LOOK)], half[:, None] * _NODES
    mass = half[:, None] * _WEIGHTS * np.exp(-(walk**2) / (2 * FIRST_LOOK)) / math.sqrt(2 * math.pi * FIRST_LOOK)
    for look in range(FIRST_LOOK + 1, LAST_LOOK + 1):
        half = _boundary(walk, mass, _LEVELS * (_spent(look) - _spent(look - 1)))
        levels.append(2 * special.ndtr(-half / math.sqrt(look)))
        after = half[:, None] * _NODES
        density = (np.exp(-0.5 * (after[:, :, None] - walk[:, None, :]) ** 2) * mass[:, None, :]).sum(axis=2)
        walk, mass = after, half[:, None] * _WEIGHTS * density / math.sqrt(2 * math.pi)
    return np.array(levels)


def _boundary(walk: Array, mass: Array, chance: Array) -> Array:
    """Return for each level how far away a step of one more block ends with this chance."""
    low, high = np.zeros_like(chance), np.full_like(chance, 8.0 * math.sqrt(LAST_LOOK))
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        beyond = special.ndtr(walk - middle[:, None]) + special.ndtr(-walk - middle[:, None])
        is_low = (mass * beyond).sum(axis=1) > chance
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return (low + high) / 2


def likely(effect: Effect) -> float:
    """Return the probability of any effect given the measurements: a spike at 0 and a slab (Mitchell & Beauchamp
    1988, doi:10.1080/01621459.1988.10478694), with the variance taken as known. 1 if the scatter is unknown or 0.
    """
    known = 0.0 if effect.spread is None else float(effect.spread.blocks + effect.spread.rest)
    if known <= 0:
        return 1.0
    slab = known + _USUAL_EFFECT**2
    log_odds = (math.log(known / slab) + effect.value**2 * (1 / known - 1 / slab)) / 2
    return float(special.expit(log_odds + special.logit(1 - _NONE_AT_FIRST)))


def chances(effect: Effect, blocks: int, alpha: float, like: int) -> Array:
    """Return how likely 1, 2 ... more blocks show an effect, up to the last look; all 0 if the scatter is unknown.

    Nothing is assumed about the true ratio beyond the measurements: the predictive power of Spiegelhalter, Freedman &
    Blackburn 1986, doi:10.1016/0197-2456(86)90003-6.
    """
    if effect.spread is None:
        return np.zeros(LAST_LOOK)
    around, counts = effect.spread, np.arange(blocks + 1, blocks + LAST_LOOK + 1, dtype=np.float64)
    one_block, dfs = float(around.blocks) * blocks, counts - blocks + float(around.blocks_df)
    later = Spread(np.asarray(one_block / counts), dfs, around.rest, around.rest_df)
    half = spread.half_width(later, 1 - unpaid(alpha, counts, like))
    away, sd = abs(effect.value), np.sqrt(one_block * (counts - blocks) / (blocks * counts))
    differs = special.ndtr((away - half) / sd) + special.ndtr(-(away + half) / sd)
    return np.asarray(differs, dtype=np.float64)
