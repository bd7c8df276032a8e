"""Whether a change may pass a gate of CI: is an arm certainly slower than the baseline by more than a limit?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from lab.comparison import looks, spread
from lab.comparison.compare import Comparison
from lab.comparison.effect import CONFIDENCE
from lab.comparison.verdict import holm, paid_for_looks

Answer = Literal["slower", "not slower", "inconclusive"]


def gate(table: Sequence[Comparison], limit: float) -> Answer:
    """Return one answer for a whole table, which is false with a probability of 1 - CONFIDENCE at most.

    `slower`: in some cell the gain is certainly below 1 - limit. One false cell would be enough to stop a change, so
    the p values are corrected for the table (Holm). `not slower`: in each cell the whole interval lies at 1 - limit or
    above. That needs no correction, since the answer is false only if the slower cell itself passes (an
    intersection-union test, Berger 1982). Controls are ignored. Both answers pay for the looks of a study that measured
    until decided.
    """
    table = [cell for cell in table if not cell.control]
    worst = math.log1p(-limit)
    claims = [(cell, effect) for cell in table if (effect := cell.effect) and effect.spread]
    if claims:  # p values for each gain's logarithm being `worst` rather than below it
        gains = np.array([effect.value if cell.better == "higher" else -effect.value for cell, effect in claims])
        around = spread.together([effect.spread for _, effect in claims if effect.spread])
        p_slower = paid_for_looks(
            spread.p_values(worst - gains, around), [cell for cell, _ in claims], [1] * len(claims)
        )
        if any(p <= 1 - CONFIDENCE for p in holm(p_slower)):
            return "slower"
    passed = all(_lowest_gain(cell) >= worst for cell in table)
    return "not slower" if passed and table else "inconclusive"


def _lowest_gain(cell: Comparison) -> float:
    """Return the lower bound of a gain's logarithm; minus infinity if it is unknown."""
    confidence = CONFIDENCE
    if cell.until_decided:
        confidence = 1 - float(looks.unpaid(1 - CONFIDENCE, np.array([cell.blocks]), 1)[0])
    interval = None if cell.effect is None else cell.effect.interval(confidence)
    if interval is None or interval.low is None or interval.high is None:
        return -math.inf
    return interval.low if cell.better == "higher" else -interval.high
