"""The result of a search: an arm's capacity in each repeat and over all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.capacity.attainment import Observation, Posterior, of_all, of_repeat
from lab.capacity.search import met_slo
from lab.metrics.number_format import is_too_wide
from lab.study import Load

#: The unit of a capacity by what its search finds.
UNITS: Mapping[str, str] = {"rate": "requests/s", "concurrency": "at once"}
#: Trials are weighted by how near their load is to the capacity: the width of the weighting, as a logarithm.
_NEAR = 0.1


@dataclass(frozen=True)
class Capacity:
    """A capacity in requests per second, or requests at once, with its interval.

    `value` is None beyond the bounds of the search: then `low` is the greatest load that met the SLO, or `high` the
    smallest that did not. `repeat` is None for all repeats together.
    """

    repeat: int | None
    value: float | None
    low: float | None
    high: float | None
    trials: int
    requests: int

    def words(self, search: Load) -> str:
        """The interval, with its unit."""
        unit = UNITS[search.find or "rate"]
        if self.low is None:
            return f"below {self.high:.3g} {unit}"
        if self.high is None:
            return f"above {self.low:.3g} {unit}"
        if self.value is not None and is_too_wide(self.value, self.low, self.high):
            return f"about {self.value:.3g} {unit}, its interval is unknown"
        return f"from {self.low:.3g} to {self.high:.3g} {unit}"


def observation(search: Load, load: Load, repeat: int, metrics: Mapping[str, object]) -> Observation | None:
    """Return what a trial gave, from its metrics; None if its requests were not counted."""
    tried = load.request_rate_rps if search.find == "rate" else load.max_concurrency
    completed, failed, within = (metrics.get(f"requests_{name}") for name in ("completed", "failed", "within_slo"))
    if tried is None or not (isinstance(completed, int) and isinstance(failed, int) and isinstance(within, int)):
        return None
    return Observation(float(tried), completed + failed, within, repeat) if completed + failed else None


def capacities(trials: Sequence[Observation], search: Load) -> list[Capacity]:
    """Return the capacity in each repeat, and last the one over all of them; empty without an observation."""
    repeats = sorted({trial.repeat for trial in trials})
    per_repeat = [capacity_of_repeat(trials, search, repeat) for repeat in repeats]
    return [*per_repeat, _capacity(trials, search, None, of_all(trials, search.slo_share))] if per_repeat else []


def capacity_of_repeat(trials: Sequence[Observation], search: Load, repeat: int) -> Capacity:
    """Return the capacity in one repeat that has observations."""
    own = [trial for trial in trials if trial.repeat == repeat]
    return _capacity(own, search, repeat, of_repeat(trials, repeat, search.slo_share))


def _capacity(observations: Sequence[Observation], search: Load, repeat: int | None, posterior: Posterior) -> Capacity:
    held = [trial.load for trial in observations if met_slo(trial, search.slo_share)]
    missed = [trial.load for trial in observations if not met_slo(trial, search.slo_share)]
    trials, requests = len(observations), sum(trial.planned for trial in observations)
    if not (held and missed):
        return Capacity(repeat, None, max(held, default=None), min(missed, default=None), trials, requests)
    value, low, high = posterior.interval
    if search.find == "concurrency":
        value, low, high = (float(max(1, math.floor(load))) for load in (value, low, high))
    return Capacity(repeat, value, low, high, trials, requests)


def goodput_at(capacity: float, trials: Sequence[tuple[float, float]]) -> float | None:
    """Return the goodput at the capacity in output tokens a second, from the (load, tokens a second) of trials.

    The tokens per unit of load hardly change near the capacity, so their mean is taken there.
    """
    positive = [(load, rate) for load, rate in trials if rate > 0]
    if not positive:
        return None
    loads, rates = np.array(positive).T
    away = np.log(loads / capacity)
    weights = np.exp(-0.5 * ((np.abs(away) - np.abs(away).min()) / _NEAR) ** 2)
    return float(capacity * np.exp(np.average(np.log(rates / loads), weights=weights)))
