"""Part capacity: the share of searches whose interval holds a server's known capacity, and their cost.

First simulated queues, then real server processes, all searched at the same time: give these a machine without other
work. No processor time is part of any figure.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from host.settings import Settings
from lab.capacity.result import Capacity
from tests.lab.capacity.queues import QUEUES, Queue
from tests.lab.capacity.searches import capacity_of, outcomes_of, searching
from tests.workers.studies.real_searches import search

#: Searches of each simulated queue, their repeats, and searches of real servers.
SEARCHES, _REPEATS, _REAL = 50, 2, 10
_SERVER = Queue(slots=4, service_s=0.4, cv=0.01, bound_s=0.4, requests=60)
_AIM = "aim: at least 95 %"


@dataclass(frozen=True)
class _Searched:
    """The true capacity, and the result of a search."""

    truth: float
    capacity: Capacity
    trials: int

    @property
    def holds(self) -> bool:
        return (self.capacity.low or 0.0) <= self.truth <= (self.capacity.high or float("inf"))

    @property
    def width(self) -> float:
        """Return the width of the interval as a share of the capacity."""
        value, low, high = self.capacity.value, self.capacity.low, self.capacity.high
        return float("nan") if value is None or low is None or high is None else (high - low) / value


def run(_settings: Settings, _repeats: int, searches: int = SEARCHES, real: int = _REAL) -> None:
    """Search each queue this often, and real servers, and print the shares of intervals that hold the true capacity."""
    every = []
    for queue in QUEUES:
        study = searching(queue, _REPEATS, find_from=queue.capacity / 3)
        searched = []
        for seed in range(searches):
            outcomes = outcomes_of(queue, seed, study)
            searched.append(_Searched(queue.capacity, capacity_of(outcomes, study), len(outcomes)))
        every += searched
        print(_line(f"{queue.slots} slots of {queue.service_s:g} s, {queue.requests} requests a trial", searched))
    print(f"{_line('all simulated queues', every)}; {_AIM}")
    if real:
        _show_real(asyncio.run(_real(real)))


def _show_real(searched: Sequence[_Searched]) -> None:
    print(f"{_line('real server processes, one repeat', searched)}; {_AIM}")
    for result in searched:
        bounds = " to ".join(
            "unknown" if bound is None else f"{bound:.3g}" for bound in (result.capacity.low, result.capacity.high)
        )
        print(
            f"  {result.truth:.3g} requests/s; found {bounds} in {result.trials} "
            f"trials{'' if result.holds else ': MISSED'}"
        )


async def _real(servers: int) -> list[_Searched]:
    searches = await asyncio.gather(*(search(_SERVER, seed) for seed in range(servers)))
    return [_Searched(searched.truth, searched.capacity, searched.trials) for searched in searches]


def _line(name: str, searched: Sequence[_Searched]) -> str:
    held = sum(result.holds for result in searched)
    trials = statistics.median(result.trials for result in searched)
    width = statistics.median(result.width for result in searched)
    return (
        f"{name}: {held} of {len(searched)} intervals hold the truth; median {trials:g} trials, "
        f"interval {width:.1%} wide"
    )
