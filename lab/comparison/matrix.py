"""Acceptance length by model and kind of text, with an interval over prompts.

Rounds of one text are not independent, prompts are: so the interval is that of a ratio of sums over prompts (Cochran
1977, Sampling Techniques, 6.3), with all turns of a session and all repeats of a prompt as one observation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from lab.comparison.effect import Interval


@dataclass(frozen=True)
class MatrixCell:
    """One draft on one kind of text. `length` is the acceptance length; its bounds are None for a single prompt."""

    target: str
    arm: str
    method: str
    num_speculative_tokens: int
    category: str
    length: Interval
    prompts: int
    rounds: int


def length_over_prompts(drafts: Sequence[int], accepted: Sequence[int], confidence: float = 0.95) -> Interval | None:
    """Return 1 + accepted / drafts of all prompts together with its interval; None without a round."""
    rounds, tokens = np.asarray(drafts, dtype=np.float64), np.asarray(accepted, dtype=np.float64)
    if not rounds.sum():
        return None
    rate = float(tokens.sum() / rounds.sum())
    count = rounds.size
    if count < 2:
        return Interval(1 + rate, None, None)
    variance = count / (count - 1) * float(((tokens - rate * rounds) ** 2).sum()) / float(rounds.sum()) ** 2
    reach = float(special.stdtrit(count - 1, 0.5 + confidence / 2)) * math.sqrt(variance)
    return Interval(1 + rate, max(1.0, 1 + rate - reach), 1 + rate + reach)
