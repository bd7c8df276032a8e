"""The choice of the next rate or concurrency in a search for the capacity, from the results of its trials so far.

Doubling until trials lie on both sides of the capacity, then its median each time, until its interval is narrow.
Every result is taken as uncertain: later runs outweigh one that was lucky or unlucky.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lab.capacity.attainment import Observation, of_all, of_repeat
from lab.study import Load
from lab.study.study import MOST_TRIALS

#: The width of the interval over all repeats at which a search ends, as a share of the capacity.
WIDTH = 0.05
_FACTOR = 2.0
#: Later repeats begin with small steps, because their capacity is about that of the earlier repeats.
_NEAR_FACTOR = 1.1
#: This many trials at a bound of the search must agree that the capacity lies beyond it.
_AGREE = 2
#: Rounding error of a share of requests.
_TINY = 1e-9

Reason = Literal["narrow", "trials spent", "above", "below"]


@dataclass(frozen=True)
class Ask:
    """The rate or concurrency to try next."""

    load: float


@dataclass(frozen=True)
class Found:
    """The end of the search in one repeat; `above` and `below` mean beyond the bounds of the search."""

    reason: Reason


def met_slo(trial: Observation, share: float) -> bool:
    """Return whether at least this share of the trial's requests met the SLO."""
    return trial.within >= share * trial.planned - _TINY


def next_trial(trials: Sequence[Observation], search: Load, repeat: int, repeats: int) -> Ask | Found:
    """Return the step after the trials of this repeat; the trials of earlier repeats determine where to begin."""
    share = search.slo_share
    own = [trial for trial in trials if trial.repeat == repeat]
    if not own:
        return Ask(_allowed(of_all(trials, share).quantile(0.5) if trials else search.find_start, search))
    held = [trial.load for trial in own if met_slo(trial, share)]
    missed = [trial.load for trial in own if not met_slo(trial, share)]
    if not (held and missed):
        return _outwards(held, missed, search, _FACTOR if len(own) == len(trials) else _NEAR_FACTOR)
    posterior = of_repeat(trials, repeat, share)
    value, low, high = posterior.interval
    is_one_number = search.find == "concurrency" and math.floor(low) == math.floor(high)
    if is_one_number or high - low <= WIDTH * math.sqrt(repeats) * value:  # of several repeats the mean is known better
        return Found("narrow")
    if len(own) >= MOST_TRIALS:
        return Found("trials spent")
    return Ask(_allowed(posterior.quantile(0.5), search))


def _outwards(held: Sequence[float], missed: Sequence[float], search: Load, factor: float) -> Ask | Found:
    """Step outwards while all trials lie on one side of the capacity: steps double, up to a bound of the search."""
    tried, bound = (held, search.find_greatest) if held else (missed, search.find_least)
    if tried.count(bound) >= _AGREE:
        return Found("above" if held else "below")
    if len(tried) >= MOST_TRIALS:
        return Found("trials spent")
    step = min(_FACTOR, factor ** (2 ** (len(tried) - 1)))
    return Ask(_allowed(max(held) * step if held else min(missed) / step, search))


def _allowed(load: float, search: Load) -> float:
    """Return the nearest load that can be tried: within the search's bounds, a count or a number of three digits."""
    rounded = float(round(load)) if search.find == "concurrency" else float(f"{load:.3g}")
    return min(max(rounded, search.find_least), search.find_greatest)
