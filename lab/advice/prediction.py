"""The prediction of theory for each run, to be compared with the measurement.

Alpha, the chance that a drafted token is accepted, is taken from the first position alone, where nothing has to be
assumed. `theory.tau` then gives the length of rounds if every later token were accepted as often; a different measured
length shows how far that assumption fails. The cost of drafting is given by the user, or is what the same arm showed at
its lowest concurrency, where a round shares the machine with the fewest requests.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lab.advice import theory
from lab.study.arm import LOOKUP_METHODS

CostFrom = Literal["stated", "drafts are looked up", "this arm at its least concurrency"]


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

    `predicted_speedup` takes `draft_cost` into account, and is None if only the run itself could tell that cost.
    `implied_draft_cost` is what the run's own speed-up and length say of it, verifying included. At the one cost, or
    else the other, gamma drafted tokens pay above `break_even_alpha` (None: never), and `best_gamma` of them pay most
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
    alpha, implied = _alpha(run), _implied(run)
    cost = draft_cost if draft_cost is not None or implied is None else max(implied, 0.0)
    return Prediction(
        run=run,
        alpha=alpha,
        predicted_length=None if alpha is None else theory.tau(alpha, run.gamma),
        draft_cost=draft_cost,
        draft_cost_from=source,
        predicted_speedup=None if alpha is None or draft_cost is None else theory.speedup(alpha, run.gamma, draft_cost),
        implied_draft_cost=implied,
        break_even_alpha=None if cost is None else theory.break_even_alpha(run.gamma, cost),
        best_gamma=theory.best_gamma(alpha, cost)[0] if alpha is not None and cost else None,
    )


def _alpha(run: SpeculatedRun) -> float | None:
    """Alpha, or None for a share outside 0 to 1, which the counters of an unjudged run may give."""
    return run.first_position if run.first_position is not None and 0 <= run.first_position <= 1 else None


def _implied(run: SpeculatedRun) -> float | None:
    if run.speedup is None or run.acceptance_length is None:
        return None
    return theory.implied_draft_cost(run.speedup, run.acceptance_length, run.gamma)


def _cost(
    run: SpeculatedRun, runs: Sequence[SpeculatedRun], stated: float | None
) -> tuple[float | None, CostFrom | None]:
    if stated is not None:
        return stated, "stated"
    if run.method in LOOKUP_METHODS:
        return 0.0, "drafts are looked up"
    alike = [other for other in runs if (other.arm, other.workload) == (run.arm, run.workload)]
    least = min(other.concurrency for other in alike)
    implied = [_implied(other) for other in alike if other.concurrency == least]
    known = [cost for cost in implied if cost is not None]
    if run.concurrency == least or not known:
        return None, None
    return max(statistics.median(known), 0.0), "this arm at its least concurrency"
