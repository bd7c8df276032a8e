"""Tables of cells whose truth is known: logarithms of what baseline and candidate measured, block by block."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lab.comparison.compare import CellRuns
from lab.comparison.samples import Array, RunSample

_Draw = Callable[[np.random.Generator, int], Array]
#: By how much the noise of each place differs from the usual one.
_NOISE: dict[str, _Draw] = {
    "equal": lambda _, places: np.ones(places),
    "a third": lambda rng, places: np.exp(0.3 * rng.standard_normal(places)),
    "fourfold": lambda rng, places: np.exp(np.log(2) * rng.uniform(-1, 1, places)),
    "grows with load": lambda _, places: 3.0 ** (np.arange(places) / max(places - 1, 1) - 0.5),
    "two kinds": lambda rng, places: np.where(rng.random(places) < 0.5, 0.5, 2.0),
}
#: And one cell whose candidate is four times as noisy; a machine on which one run in ten is much slower; and one on
#: which the starts of an engine differ by three times as much as the runs on them, each at all places.
WORLDS = (*_NOISE, "one wild cell", "bimodal", "starts")
_WILD, _SLOW_SHARE, _SLOWER = 4.0, 0.1, 6.0
#: The standard deviation of what both arms of a repeat have in common.
_BLOCK = 0.05


@dataclass(frozen=True)
class Table:
    """`baseline` and `candidate` of shape (cells, blocks); cells of one of `places` share the baseline's runs.

    Cells of one of `arms` share the candidate's engine starts. The concurrency doubles from place to place.
    """

    places: tuple[int, ...]
    arms: tuple[int, ...]
    baseline: Array
    candidate: Array
    truth: Array  # log ratios, of shape (cells,)


def simulated(rng: np.random.Generator, world: str, shape: tuple[int, int], *, ratio: float, noise: float) -> Table:
    """Half of the cells have the ratio. `noise` is the usual standard deviation of a run's logarithm."""
    cells, blocks = shape
    count = next(count for count in (5, 2, 1) if count == 1 or (cells % count == 0 and cells > count))
    places = np.repeat(np.arange(cells // count), count)
    arms = np.arange(cells) % count if world == "starts" else np.arange(cells)
    sd = noise * _NOISE.get(world, _NOISE["equal"])(rng, cells // count) * (1 / 3 if world == "starts" else 1)
    base = sd[:, None] * rng.standard_normal((cells // count, blocks))
    tried = sd[places, None] * rng.standard_normal((cells, blocks))
    if world == "one wild cell":
        tried[rng.integers(cells)] *= _WILD
    if world == "bimodal":
        base -= _SLOWER * noise * (rng.random(base.shape) < _SLOW_SHARE)
        tried -= _SLOWER * noise * (rng.random(tried.shape) < _SLOW_SHARE)
    if world == "starts":
        base += noise * rng.standard_normal(blocks)
        tried += noise * rng.standard_normal((count, blocks))[arms]
    truth = np.zeros(cells)
    truth[rng.permutation(cells)[: (cells + 1) // 2]] = np.log(ratio)
    common = _BLOCK * rng.standard_normal(blocks)
    shared = tuple(map(int, places)), tuple(map(int, arms))
    return Table(*shared, base[places] + common, tried + common + truth[:, None], truth)


def cells_of(table: Table) -> list[CellRuns]:
    """The table as runs of both arms."""
    return [
        CellRuns(
            [RunSample(f"b{place}-{block}", "plain", block, math.exp(value)) for block, value in enumerate(base)],
            [RunSample(f"c{cell}-{block}", "draft", block, math.exp(value)) for block, value in enumerate(tried)],
        )
        for cell, (place, base, tried) in enumerate(zip(table.places, table.baseline, table.candidate, strict=True))
    ]
