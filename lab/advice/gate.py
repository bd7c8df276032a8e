"""Whether a change may pass a gate of CI: is an arm certainly slower than the baseline by more than a limit?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from lab.comparison import spread
from lab.comparison.compare import CONFIDENCE, Comparison
from lab.comparison.effect import Effect
from lab.comparison.samples import Array
from lab.comparison.verdict import holm

Answer = Literal["slower", "not slower", "undecided"]


def gate(table: Sequence[Comparison], limit: float, confidence: float = CONFIDENCE) -> Answer:
    """Return one answer for a whole table, which is false with a probability of 1 - confidence at most.

    `slower`: in some cell the gain is certainly below 1 - limit. One false cell would be enough to stop a change, so
    the p values are corrected for the table (Holm). `not slower`: in each cell the whole interval lies at 1 - limit or
    above. That needs no correction, since the answer is false only if the very cell that is slower passes (an
    intersection-union test, Berger 1982). Controls have no say.
    """
    table = [cell for cell in table if not cell.control]
    claims = [(effect, cell.better == "higher") for cell in table if (effect := cell.effect) and effect.spread]
    if any(p <= 1 - confidence for p in holm(_p_slower(claims, math.log1p(-limit)))):
        return "slower"
    gains = [cell.gain for cell in table]
    passed = all(gain is not None and gain.low is not None and gain.low >= 1 - limit for gain in gains)
    return "not slower" if passed and gains else "undecided"


def _p_slower(claims: Sequence[tuple[Effect, bool]], worst: float) -> Array:
    """P values for each gain's logarithm being `worst` rather than below it."""
    if not claims:
        return np.empty(0)
    gains = np.array([effect.value if higher else -effect.value for effect, higher in claims])
    return spread.p_values(worst - gains, spread.together([effect.spread for effect, _ in claims if effect.spread]))
