"""The theory of speculative decoding: expected tokens per round, speed-up, break-even acceptance.

Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding" (ICML 2023): equation 1 and
theorem 3.8. They assume that each drafted token is accepted with the same probability alpha, independently of the
others, and that verifying gamma + 1 tokens takes as long as making one: true while the target waits for memory, and
less so the more requests run at once. How far a measured speed-up stays below the expected one says how far that fails.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

#: A rate this close to 1 is 1: the formula divides by their difference.
_ONE = 1 - 1e-12
_MOST_DRAFTED = 64


def tau(alpha: float, gamma: int) -> float:
    """Expected tokens of one round, the bonus token included: (1 - alpha^(gamma + 1)) / (1 - alpha).

    `alpha` is the chance that a drafted token is accepted, 0 to 1; `gamma` how many are drafted. Raises ValueError for
    others.
    """
    if not 0 <= alpha <= 1 or gamma < 0:
        raise ValueError(f"alpha {alpha} is not between 0 and 1, or gamma {gamma} is negative")
    return gamma + 1.0 if alpha > _ONE else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def alpha_of(acceptance_length: float, gamma: int) -> float | None:
    """The alpha whose `tau` this length is; None for a length outside 1 to gamma + 1.

    Not the acceptance rate (accepted / drafted): tokens behind the first rejected one count there as not accepted.
    """
    if gamma < 1 or not 1 <= acceptance_length <= gamma + 1:
        return None
    return float(brentq(lambda alpha: tau(alpha, gamma) - acceptance_length, 0.0, 1.0))


def speedup(alpha: float, gamma: int, draft_cost: float) -> float:
    """Expected ratio of decoding speeds: tau / (gamma x draft_cost + 1).

    `draft_cost` is the time of one draft step over that of one target step (c in the paper); about 0 for n-gram.
    """
    return tau(alpha, gamma) / (gamma * draft_cost + 1)


def speedup_of_length(acceptance_length: float, gamma: int, draft_cost: float) -> float:
    """Expected speed-up from a measured acceptance length, without assuming independence."""
    return acceptance_length / (gamma * draft_cost + 1)


def break_even_alpha(gamma: int, draft_cost: float) -> float | None:
    """The alpha above which drafting gamma tokens pays; None where it never does (draft_cost of 1 or more)."""
    if gamma < 1 or speedup(1.0, gamma, draft_cost) <= 1:
        return None
    return float(brentq(lambda alpha: speedup(alpha, gamma, draft_cost) - 1, 0.0, 1.0))


def best_gamma(alpha: float, draft_cost: float) -> tuple[int, float]:
    """Return how many tokens to draft for the largest expected speed-up, and that speed-up; (0, 1.0) if none pays."""
    speedups = [1.0, *(speedup(alpha, gamma, draft_cost) for gamma in range(1, _MOST_DRAFTED + 1))]
    best = int(np.argmax(speedups))
    return best, speedups[best]


def implied_draft_cost(measured_speedup: float, acceptance_length: float, gamma: int) -> float | None:
    """Return the cost of a draft step, overheads included, that a measured speed-up implies; None without drafts."""
    if gamma < 1 or measured_speedup <= 0:
        return None
    return (acceptance_length / measured_speedup - 1) / gamma
