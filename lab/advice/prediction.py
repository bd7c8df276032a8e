"""The theory of speculative decoding, and its prediction for each run, to be compared with the measurement.

Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding" (ICML 2023): equation 1 and
theorem 3.8 give tokens per round, speed-up and break-even acceptance. They assume that each drafted token is accepted
with the same probability alpha, independently of the others, and that verifying gamma + 1 tokens takes as long as
making one: true while the target waits for memory, and less so the more requests run at once. How far a measured
speed-up stays below the expected one shows how far that assumption fails.

For a run, alpha is taken from the first position alone, where nothing has to be assumed. `tau` then gives the length
of rounds if every later token were accepted as often; a different measured length shows how far that assumption fails.
The cost of drafting is given by the user, or is what the same arm showed at its lowest concurrency, where a round
shares the machine with the fewest requests.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from lab.study.methods import method_of

#: A rate this close to 1 is 1: the formula divides by their difference.
_ONE = 1 - 1e-12
_MOST_DRAFTED = 64
CostFrom = Literal["stated", "drafts are looked up", "this arm at its least concurrency"]


def tau(alpha: float, gamma: int) -> float:
    """Expected tokens of one round, the bonus token included: (1 - alpha^(gamma + 1)) / (1 - alpha).

    `alpha` is the chance that a drafted token is accepted, 0 to 1; `gamma` how many are drafted. Raises ValueError for
    others.
    """
    if not 0 <= alpha <= 1 or gamma < 0:
        raise ValueError(f"alpha {alpha} is not between 0 and 1, or gamma {gamma} is negative")
    return gamma + 1.0 if alpha > _ONE else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def alpha_of(acceptance_length: float, gamma: int) -> float | None:
    """Return the alpha that gives this `tau`; None for a length outside 1 to gamma + 1.

    This is not the acceptance rate (accepted / drafted), in which tokens behind the first rejected one count as not
    accepted.
    """
    if gamma < 1 or not 1 <= acceptance_length <= gamma + 1:
        return None
    return _root(lambda alpha: tau(alpha, gamma) - acceptance_length)


def speedup(alpha: float, gamma: int, draft_cost: float) -> float:
    """Expected ratio of decoding speeds: tau / (gamma x draft_cost + 1).

    `draft_cost` is the time of one draft step over that of one target step (c in the paper); about 0 for n-gram.
    """
    return tau(alpha, gamma) / (gamma * draft_cost + 1)


def speedup_of_length(acceptance_length: float, gamma: int, draft_cost: float) -> float:
    """Expected speed-up from a measured acceptance length, without assuming independence."""
    return acceptance_length / (gamma * draft_cost + 1)


def break_even_alpha(gamma: int, draft_cost: float) -> float | None:
    """The alpha above which drafting gamma tokens pays; None if it never pays (draft_cost of 1 or more)."""
    if gamma < 1 or speedup(1.0, gamma, draft_cost) <= 1:
        return None
    return _root(lambda alpha: speedup(alpha, gamma, draft_cost) - 1)


def _root(function: Callable[[float], float]) -> float:
    from scipy.optimize import brentq  # noqa: PLC0415 - a third of a second of a processor, which ingesters do without

    return float(brentq(function, 0.0, 1.0))


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


@dataclass(frozen=True)
class SpeculatedRun:
    """A run with speculation beside the baseline's run of the same repeat, workload and load; None is unknown."""

    run_id: str
    workload: str
    pattern: str
    concurrency: int
    arm: str
    method: str
    gamma: int  # num_speculative_tokens
    first_position: float | None  # share of rounds whose first drafted token was accepted
    acceptance_length: float | None
    speedup: float | None  # ratio of output throughputs


@dataclass(frozen=True)
class Prediction:
    """`predicted_length` is tau(alpha, gamma), which is also the speed-up that it would bring were drafting free.

    `predicted_speedup` takes `draft_cost` into account, and is None if only the run itself could show that cost.
    `implied_draft_cost` follows from the run's own speed-up and length, verifying included. At the given cost, or
    else the implied one, gamma drafted tokens pay above `break_even_alpha` (None: never), and `best_gamma` pay most
    (None where they are free: then more are always better).
    """

    run: SpeculatedRun
    alpha: float | None
    predicted_length: float | None
    draft_cost: float | None
    draft_cost_from: CostFrom | None
    predicted_speedup: float | None
    implied_draft_cost: float | None
    break_even_alpha: float | None
    best_gamma: int | None


def predictions(runs: Sequence[SpeculatedRun], draft_cost: float | None = None) -> list[Prediction]:
    """Return one prediction per run. `draft_cost` is the time of a draft step over that of a target step."""
    return [_prediction(run, *_cost(run, runs, draft_cost)) for run in runs]


def _prediction(run: SpeculatedRun, draft_cost: float | None, source: CostFrom | None) -> Prediction:
    first, implied = run.first_position, _implied(run)
    alpha = first if first is not None and 0 <= first <= 1 else None  # counters of an unjudged run may give others
    cost = draft_cost if draft_cost is not None or implied is None else max(implied, 0.0)
    return Prediction(
        run=run,
        alpha=alpha,
        predicted_length=None if alpha is None else tau(alpha, run.gamma),
        draft_cost=draft_cost,
        draft_cost_from=source,
        predicted_speedup=None if alpha is None or draft_cost is None else speedup(alpha, run.gamma, draft_cost),
        implied_draft_cost=implied,
        break_even_alpha=None if cost is None else break_even_alpha(run.gamma, cost),
        best_gamma=best_gamma(alpha, cost)[0] if alpha is not None and cost else None,
    )


def _implied(run: SpeculatedRun) -> float | None:
    if run.speedup is None or run.acceptance_length is None:
        return None
    return implied_draft_cost(run.speedup, run.acceptance_length, run.gamma)


def _cost(
    run: SpeculatedRun, runs: Sequence[SpeculatedRun], stated: float | None
) -> tuple[float | None, CostFrom | None]:
    if stated is not None:
        return stated, "stated"
    if method_of(run.method).looks_up:
        return 0.0, "drafts are looked up"
    alike = [other for other in runs if (other.arm, other.workload) == (run.arm, run.workload)]
    least = min(other.concurrency for other in alike)
    implied = [_implied(other) for other in alike if other.concurrency == least]
    costs = [cost for cost in implied if cost is not None]
    if run.concurrency == least or not costs:
        return None, None
    return max(statistics.median(costs), 0.0), "this arm at its least concurrency"
