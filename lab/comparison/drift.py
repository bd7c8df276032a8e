"""Whether acceptance changed over time, for the same target, draft and workload.

A control chart of single runs (NIST/SEMATECH e-Handbook 6.3.2.2) whose limits are prediction limits, because there are
few runs. The scatter of the runs sets the limits: tokens of one text are not independent draws, so a test of two
proportions would report changes that are not real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

#: The false-alarm rate of three standard deviations on a control chart.
FALSE_ALARMS = 2 * float(stats.norm.sf(3))
#: With fewer earlier runs, the limits are too wide to find anything.
LEAST_RUNS = 3
#: Changes of the acceptance length below 2 % do not matter in practice, however certain.
LEAST_CHANGE = 0.02

#: What a user reads beside the states.
RULE = (
    f"A run counts as changed if its acceptance length lies outside the prediction limits of the runs since the last "
    f"change (false alarms: {FALSE_ALARMS:.2%} of runs) and differs from their mean by more than {LEAST_CHANGE:.0%}. "
    f"With fewer than {LEAST_RUNS} earlier runs there is no verdict."
)

State = Literal["too little history", "steady", "changed"]


@dataclass(frozen=True)
class Moment:
    """One run, judged by those before it. `low` and `high` are its prediction limits; None if there were too few."""

    run_id: str
    value: float
    state: State
    expected: float | None
    low: float | None
    high: float | None


def drift(runs: Sequence[tuple[str, float]]) -> tuple[Moment, ...]:
    """Judge each run, given as (run_id, acceptance length) oldest first, against those since the last change.

    A change begins a new history, so that later runs are judged by the new level. Rates work as well as lengths.
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
    matters = abs(value - expected) > LEAST_CHANGE * expected
    return Moment(run_id, value, "changed" if outside and matters else "steady", expected, low, high)


def prediction_limits(history: Sequence[float]) -> tuple[float, float]:
    """Return the limits for the next value: mean +- t s sqrt(1 + 1/n), Hahn & Meeker 1991, chapter 4."""
    count = len(history)
    mean, scatter = float(np.mean(history)), float(np.std(history, ddof=1))
    reach = float(stats.t.isf(FALSE_ALARMS / 2, count - 1)) * scatter * math.sqrt(1 + 1 / count)
    return mean - reach, mean + reach
