"""The price of looking at a comparison after every block and stopping when it is decided.

Each look is a chance of a false call, so a study that is measured until decided pays for its looks: the chance that it
allows itself in all is spent look by look (Lan & DeMets 1983, doi:10.1093/biomet/70.3.659, with their function of
Pocock's kind, which spends much of it early). Boundaries are those of a random walk that is looked at after every
block; p values of Student's t are held against them, as Jennison & Turnbull (2000, chapter 11) propose. A p value that
was paid for is the smallest level at which the walk would have crossed its boundary at this look (Liu & Anderson 2008,
doi:10.1198/016214508000000986): it is corrected for the table like any other.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lab.comparison.samples import Array
from lab.study.study import MOST_LOOKS

#: Blocks before the first look, and the blocks by which everything is spent. What studies were promised hangs on them.
FIRST_LOOK, LAST_LOOK = 2, MOST_LOOKS
#: Levels for which boundaries are computed; between them they are interpolated.
_LEVELS = np.concatenate((10.0 ** np.arange(-12, -2), [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.95]))
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_BISECTIONS = 60


def paid(p_values: Array, blocks: Array) -> Array:
    """Return the p values with their looks paid for: of cells with so many blocks each, looked at after every block."""
    bounds = np.log(_nominal_levels())
    log_p_values = [
        np.interp(math.log(p), bounds[row], np.log(_LEVELS), right=0.0) if p > 0 else -math.inf
        for p, row in zip(p_values.tolist(), _row(blocks), strict=True)
    ]
    return np.asarray(np.exp(np.array(log_p_values)), dtype=np.float64)


def unpaid(level: float, blocks: Array) -> Array:
    """Return the p value that reaches the level at each number of blocks: the inverse of `paid`."""
    return np.asarray(_unpaid_at(level)[_row(blocks)], dtype=np.float64)


@functools.lru_cache(256)
def _unpaid_at(level: float) -> Array:
    """By look."""
    return np.exp([np.interp(math.log(level), np.log(_LEVELS), of_look) for of_look in np.log(_nominal_levels())])


def _row(blocks: Array) -> NDArray[np.intp]:
    return np.asarray(np.clip(blocks, FIRST_LOOK, LAST_LOOK) - FIRST_LOOK, dtype=np.intp)


def _spent(blocks: int) -> float:
    """The share of the level that is spent up to this look."""
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
