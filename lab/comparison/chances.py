"""How likely so many more blocks show the effect of an open comparison that is looked at after every block, and how
likely there is one at all.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from lab.comparison import looks, spread
from lab.comparison.effect import Effect
from lab.comparison.looks import LAST_LOOK
from lab.comparison.samples import Array
from lab.comparison.spread import Spread

#: Before anything is measured an arm is as likely to make no difference as some, whose logarithm then usually is this.
_NONE_AT_FIRST, _USUAL_EFFECT = 0.5, 0.2


def likely(effect: Effect) -> float:
    """Return how likely there is any effect, after what was measured: a spike at 0 and a slab (Mitchell & Beauchamp
    1988, doi:10.1080/01621459.1988.10478694), with the variance taken as known. 1 if the scatter is unknown or 0.
    """
    known = 0.0 if effect.spread is None else float(effect.spread.blocks + effect.spread.prompts)
    if known <= 0:
        return 1.0
    slab = known + _USUAL_EFFECT**2
    log_odds = (math.log(known / slab) + effect.value**2 * (1 / known - 1 / slab)) / 2
    return float(special.expit(log_odds + special.logit(1 - _NONE_AT_FIRST)))


def chances(effect: Effect, blocks: int, alpha: float, like: int) -> Array:
    """Return how likely 1, 2 ... more blocks show an effect, up to the last look; all 0 if the scatter is unknown.

    Of the true ratio no more is known than what was measured: the predictive power of Spiegelhalter, Freedman &
    Blackburn 1986, doi:10.1016/0197-2456(86)90003-6.
    """
    if effect.spread is None:
        return np.zeros(LAST_LOOK)
    around, counts = effect.spread, np.arange(blocks + 1, blocks + LAST_LOOK + 1, dtype=np.float64)
    one_block, dfs = float(around.blocks) * blocks, counts - blocks + float(around.blocks_df)
    later = Spread(np.asarray(one_block / counts), dfs, around.prompts, around.prompts_df)
    half = spread.half_width(later, 1 - looks.unpaid(alpha, counts, like))
    away, sd = abs(effect.value), np.sqrt(one_block * (counts - blocks) / (blocks * counts))
    differs = special.ndtr((away - half) / sd) + special.ndtr(-(away + half) / sd)
    return np.asarray(differs, dtype=np.float64)
