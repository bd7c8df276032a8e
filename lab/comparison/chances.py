"""How likely so many more blocks decide an open comparison that is looked at after every block."""

from __future__ import annotations

import numpy as np
from scipy import special

from lab.comparison import looks, spread
from lab.comparison.effect import Effect
from lab.comparison.samples import Array
from lab.comparison.spread import Spread


def chances(effect: Effect, blocks: int, bound: float, alpha: float, most: int) -> Array:
    """Return how likely 1, 2 ... `most` more blocks decide it; all 0 if the scatter is unknown.

    Of the true ratio no more is known than what was measured: the predictive power of Spiegelhalter, Freedman &
    Blackburn 1986, doi:10.1016/0197-2456(86)90003-6.
    """
    if effect.spread is None:
        return np.zeros(most)
    around, counts = effect.spread, np.arange(blocks + 1, blocks + most + 1, dtype=np.float64)
    one_block, dfs = float(around.blocks) * blocks, counts - blocks + float(around.blocks_df)
    later = Spread(np.asarray(one_block / counts), dfs, around.prompts, around.prompts_df)
    half = spread.half_width(later, 1 - looks.unpaid(alpha, counts))
    away, sd = abs(effect.value), np.sqrt(one_block * (counts - blocks) / (blocks * counts))
    differs = special.ndtr((away - half) / sd) + special.ndtr(-(away + half) / sd)
    room = np.maximum(bound - half, 0.0)
    same = special.ndtr((room - away) / sd) - special.ndtr(-(room + away) / sd)
    return np.asarray(np.minimum(differs + same, 1.0), dtype=np.float64)
