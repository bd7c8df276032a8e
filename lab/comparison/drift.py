"""Whether acceptance changed over time, for the same target, draft and workload.

A control chart of single runs (NIST/SEMATECH e-Handbook 6.3.2.2) whose limits are prediction limits, because there are
few runs. The scatter of the runs themselves sets them: tokens of one text are no independent draws, so a test of two
proportions would find changes where there are none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

#: As often as three standard deviations of a control chart cry wolf.
FALSE_ALARMS = 2 * float(stats.norm.sf(3))
#: With fewer runs before it, the limits of a run are so wide that nothing could be found.
LEAST_RUNS = 3
#: A change of the acceptance length below 2 % changes nobody's mind, however sure it is.
LEAST_CHANGE = 0.02

#: What a user reads beside the states.
RULE = (
    f"A run has changed when its acceptance length lies beyond the limits in which the runs before it, since the last "
    f"change, let the next one fall (false alarms: {FALSE_ALARMS:.2%} of runs), and by more than {LEAST_CHANGE:.0%} of "
    f"their mean. Under {LEAST_RUNS} earlier runs nothing is said."
)

State = Literal["too little history", "steady", "changed"]


@dataclass(frozen=True)
class Moment:
    """One run in its order of time. `low` and `high` are the limits that the runs before it set; None where too few."""

    run_id: str
    value: float
    state: State
    expected: float | None
    low: float | None
    high: float | None


def drift(runs: Sequence[tuple[str, float]]) -> tuple[Moment, ...]:
    """Runs as (run_id, acceptance length), oldest first: each against those since the last change.

    A change begins a new history, so that the next one is told from the new level. Rates do as well as lengths.
    """
    found: list[Moment] = []
    history: list[float] = []
    for run_id, value in runs:
        moment = _moment(run_id, value, history)
        history = [value] if moment.state == "changed" else [*history, value]
        found.append(moment)
    return tuple(found)


def _moment(run_id: str, value: float, history: Sequence[float]) -> Moment:
    if len(history) < LEAST_RUNS:
        return Moment(run_id, value, "too little history", None, None, None)
    low, high = prediction_limits(history)
    expected = float(np.mean(history))
    outside = not low <= value <= high
    worth_telling = abs(value - expected) > LEAST_CHANGE * expected
    return Moment(run_id, value, "changed" if outside and worth_telling else "steady", expected, low, high)


def prediction_limits(history: Sequence[float]) -> tuple[float, float]:
    """Between which the next of such numbers lies: mean +- t s sqrt(1 + 1/n), Hahn & Meeker 1991, chapter 4."""
    count = len(history)
    mean, scatter = float(np.mean(history)), float(np.std(history, ddof=1))
    reach = float(stats.t.isf(FALSE_ALARMS / 2, count - 1)) * scatter * math.sqrt(1 + 1 / count)
    return mean - reach, mean + reach
