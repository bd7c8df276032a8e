"""Experiments whose truth is known: requests that are correlated within runs, prompts and time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import signal

Array = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """Standard deviations of the natural logarithm of a request's latency, but for the correlation of neighbours."""

    run: float = 0.03  # of each run, the launch of its engine included
    block: float = 0.03  # shared by both arms of a repeat
    prompt: float = 0.5  # shared by all runs: long and short prompts
    prompt_by_arm: float = 0.05  # how differently the candidate gains by prompt
    request: float = 0.15
    neighbours: float = 0.3  # correlation of the noise of a request with that of the one before it


def requests(
    rng: np.random.Generator, world: World, shape: tuple[int, int, int], log_ratio: float = 0.0
) -> tuple[Array, Array]:
    """Latencies of baseline and candidate, each of shape (experiments, prompts, blocks)."""
    experiments, prompts, blocks = shape
    common = world.prompt * rng.standard_normal((experiments, prompts, 1))
    common = common + world.block * rng.standard_normal((experiments, 1, blocks))
    own = world.prompt_by_arm * rng.standard_normal((experiments, prompts, 1))
    base, tried = (_noise(rng, world, shape) for _ in range(2))
    return np.exp(common + base), np.exp(common + log_ratio + own + tried)


def _noise(rng: np.random.Generator, world: World, shape: tuple[int, int, int]) -> Array:
    experiments, prompts, blocks = shape
    white = rng.standard_normal((experiments, prompts + 50, blocks)) * np.sqrt(1 - world.neighbours**2)
    coloured = signal.lfilter([1.0], [1.0, -world.neighbours], white, axis=1)[:, 50:]
    run = world.run * rng.standard_normal((experiments, 1, blocks))
    return np.asarray(run + world.request * coloured, dtype=np.float64)
