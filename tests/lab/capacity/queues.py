"""Servers of known capacity, simulated: requests wait for one of several slots, and must not wait long."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Windows by which the true capacity is determined.
_WINDOWS = 1500


@dataclass(frozen=True)
class Queue:
    """A server with slots. A request meets the SLO if it has a slot within `bound_s`; times of service vary by `cv`."""

    slots: int
    service_s: float
    cv: float
    bound_s: float
    requests: int  # of a window, which begins with an empty server
    share: float = 0.95
    between: float = 0.02  # standard deviation of the logarithm of the speed between engine starts

    def within(self, rng: np.random.Generator, rate_rps: float, windows: int, speed: float = 1.0) -> NDArray[np.int_]:
        """How many requests of each window meet the SLO under Poisson arrivals, scaled as the load driver scales them:
        the last request of every window arrives at `requests / rate_rps`.
        """
        arrivals = np.cumsum(rng.exponential(1.0, (windows, self.requests)), axis=1)
        arrivals *= self.requests / rate_rps / arrivals[:, -1:]
        shape = 1 / self.cv**2
        service = rng.gamma(shape, self.service_s / shape / speed, arrivals.shape)
        if windows == 1:
            return np.array([self._within_one(arrivals[0].tolist(), service[0].tolist())])
        free, every = np.zeros((windows, self.slots)), np.arange(windows)
        good = np.zeros(windows, dtype=np.int_)
        for place in range(self.requests):
            slot = free.argmin(axis=1)
            begins = np.maximum(arrivals[:, place], free[every, slot])
            free[every, slot] = begins + service[:, place]
            good += begins - arrivals[:, place] <= self.bound_s
        return good

    def _within_one(self, arrivals: list[float], service: list[float]) -> int:
        """The same for one window, where an array for each request would take ten times as long."""
        free, good = [0.0] * self.slots, 0
        for arrives, takes in zip(arrivals, service, strict=True):
            begins = max(arrives, free[0])
            heapq.heapreplace(free, begins + takes)
            good += begins - arrives <= self.bound_s
        return good

    @cached_property
    def capacity(self) -> float:
        """The rate at which the required share meets the SLO on average over windows, by bisection."""
        low, high = 0.2 * self.slots / self.service_s, 2 * self.slots / self.service_s
        while high / low > 1.002:
            middle = float(np.sqrt(low * high))
            is_carried = self.within(np.random.default_rng(1), middle, _WINDOWS).mean() >= self.share * self.requests
            low, high = (middle, high) if is_carried else (low, middle)
        return float(np.sqrt(low * high))


#: Short and long queues, even and uneven requests, short and long windows.
QUEUES = (
    Queue(slots=1, service_s=0.1, cv=1.0, bound_s=0.5, requests=200),
    Queue(slots=8, service_s=0.8, cv=1.0, bound_s=0.5, requests=200),
    Queue(slots=8, service_s=0.8, cv=0.1, bound_s=0.3, requests=200),
    Queue(slots=32, service_s=3.0, cv=0.5, bound_s=1.0, requests=400),
)
