"""The speed of every number of drafted tokens, from runs at a few of them.

A run at the greatest k shows how often each position is accepted, hence how long the rounds of every shorter chain are.
Two values of k at a load say what a round costs there: a + b k, in steps of the target. Together they predict every k
between. A cost need not lie on a line exactly: graphs are captured for some sizes, memory and arithmetic alternate as
the limit. So each k has a small deviation of its own, which its own runs replace as they come in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.advice.prediction import implied_draft_cost, speedup_of_length
from lab.comparison.samples import Array

#: Before anything is measured a round costs about 1 + 0.1 k steps of the target; the standard deviations of both.
_USUAL_COST, _USUAL_SD = np.array([1.0, 0.1]), np.array([0.3, 0.5])
#: The standard deviation of one k's cost around the line, as a share.
_OFF_THE_LINE = 0.02
#: A round is never much cheaper than a step without drafting; it only seems so by noise.
_LEAST_COST = 0.5


@dataclass(frozen=True)
class Gain:
    """The logarithm of a speed-up over no speculation, with the variance that its own measurement leaves."""

    value: float
    variance: float


@dataclass(frozen=True, eq=False)
class Curve:
    """For each of `ks` the expected logarithm of the speed-up, of shape (ks,), and their covariance (ks, ks)."""

    ks: tuple[int, ...]
    gains: Array
    covariance: Array


def lengths(ks: Sequence[int], accepted: Mapping[int, Sequence[float]]) -> dict[int, float]:
    """Return the tokens per round for each k, the bonus token included, as far as they are known.

    `accepted` has the acceptance by position for each measured k. A k that was not measured takes the values of
    the next greater measured one: a chain is accepted from its front, whatever is drafted behind.
    """
    lengths_of = {}
    for k in ks:
        longer = min((other for other, shares in accepted.items() if other >= k and len(shares) >= k), default=None)
        if longer is not None:
            lengths_of[k] = 1.0 + math.fsum(accepted[longer][:k])
    return lengths_of


def curve(ks: Sequence[int], rounds: Mapping[int, float], measured: Mapping[int, Gain]) -> Curve:
    """Return the speed-up of every k of one draft at one load. `rounds` are `lengths` and has every k."""
    measured_ks = tuple(measured)
    cost = np.array([_cost(math.exp(measured[k].value), rounds[k], k) for k in measured_ks])
    noise = np.array([measured[k].variance for k in measured_ks]) * cost**2
    every, ours = _terms(ks), _terms(measured_ks)
    bend = (_OFF_THE_LINE * float(cost.mean())) ** 2
    before = every @ np.diag(_USUAL_SD**2) @ every.T + bend * np.eye(len(ks))
    at = [ks.index(k) for k in measured_ks]
    weight = np.linalg.solve(before[np.ix_(at, at)] + np.diag(noise), before[at]).T
    costs = np.maximum(every @ _USUAL_COST + weight @ (cost - ours @ _USUAL_COST), _LEAST_COST)
    left = before - weight @ before[at]
    gains = np.array([math.log(speedup_of_length(rounds[k], k, (costs[index] - 1) / k)) for index, k in enumerate(ks)])
    return Curve(tuple(ks), gains, left / np.outer(costs, costs))


def _terms(ks: Sequence[int]) -> Array:
    return np.array([[1.0, k] for k in ks]).reshape(-1, 2)


def _cost(speedup: float, length: float, k: int) -> float:
    """Return the cost of a round in steps of the target."""
    per_token = implied_draft_cost(speedup, length, k)
    return 1.0 if per_token is None else 1 + k * per_token
