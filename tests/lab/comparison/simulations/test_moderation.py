"""By simulation, in worlds whose truth is known: what a table promises when its cells moderate each other.

Half of the cells have an effect, or none has. The promises: on average at most 5 % of the calls in a table are false,
of tables without any effect at most 5 % hold a call, and intervals hold the truth in 93 to 97 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from lab.comparison import spread
from lab.comparison.compare import compare_cells
from lab.comparison.moderation import Scatter, moderated, repetitions
from lab.comparison.samples import Array
from lab.comparison.spread import Spread
from lab.comparison.verdict import benjamini_hochberg, holm, verdicts
from tests.lab.comparison.simulations.tables_of_cells import WORLDS, Table, cells_of, simulated

_TABLES = 50
#: Three standard deviations of the simulation's own luck, for a share of 5 %.
_LUCK = 3 * math.sqrt(0.05 * 0.95 / _TABLES)


@dataclass(frozen=True)
class Outcome:
    """Shares over many tables."""

    called: float  # of the true effects
    false_calls: float  # of the calls, averaged over tables
    held: float  # of the true ratios, those within their interval
    strictly: float  # of the true effects, those called in the strict reading


def simulate(world: str, cells: int, repeats: int, ratio: float, noise: float) -> Outcome:
    rng = np.random.default_rng(cells * 100 + repeats)
    tables = [_outcome(simulated(rng, world, (cells, repeats), ratio=ratio, noise=noise)) for _ in range(_TABLES)]
    return Outcome(*(float(np.mean(column)) for column in zip(*tables, strict=True)))


def false_tables(world: str, cells: int, repeats: int, noise: float) -> float:
    """The share of tables without any effect that hold a call."""
    rng = np.random.default_rng(cells * 100 + repeats + 1)
    empty = (simulated(rng, world, (cells, repeats), ratio=1.0, noise=noise) for _ in range(_TABLES))
    return float(np.mean([_outcome(table)[1] for table in empty]))


def _outcome(table: Table) -> tuple[float, float, float, float]:
    """The share of effects called, the share of calls that are false, the share of intervals that hold the truth, and
    the share of effects called strictly.

    Of a table without effects the first is 0 and the second is 1 if it holds a call. The steps are those of
    `compare_cells` and `verdicts`, on arrays.
    """
    effects = table.candidate - table.baseline
    repeats = effects.shape[1]
    sharing = [table.places.count(place) for place in table.places]
    own = effects.var(axis=1, ddof=1)
    deviations = list(effects - effects.mean(axis=1, keepdims=True))
    again = repetitions([{arm} for arm in table.arms], deviations)
    loads = [2.0**place for place in table.places]
    scatters = moderated(own.tolist(), [repeats - 1.0] * own.size, sharing, repeated=again, loads=loads)
    variance = np.array([scatter.variance if scatter else alone for scatter, alone in zip(scatters, own, strict=True)])
    df = np.array([scatter.df if scatter else repeats - 1.0 for scatter in scatters])
    around = Spread(variance / repeats, df, np.zeros(own.size), np.full(own.size, math.inf))
    means = effects.mean(axis=1)
    p_values = spread.p_values(np.abs(means), around)
    calls, strict = (np.array(adjusted(p_values)) <= 0.05 for adjusted in (benjamini_hochberg, holm))
    real = table.truth != 0
    return (
        float(calls[real].mean()) if real.any() else 0.0,
        float((calls & ~real).sum() / max(calls.sum(), 1)),
        float((np.abs(means - table.truth) <= spread.half_width(around, 0.95)).mean()),
        float(strict[real].mean()) if real.any() else 0.0,
    )


@pytest.mark.parametrize(
    ("cells", "repeats", "ratio", "noise", "wanted"),
    [
        (35, 3, 1.1, 0.02, 0.8),
        (35, 3, 1.5, 0.05, 0.97),
        (6, 3, 1.1, 0.02, 0.8),
        (4, 3, 1.5, 0.05, 0.95),
        (35, 2, 1.3, 0.03, 0.95),
    ],
)
def test_so_few_repeats_of_a_table_decide(cells: int, repeats: int, ratio: float, noise: float, wanted: float) -> None:
    """Noise differs from cell to cell by a third. The strict reading calls most of 35 cells of two repeats, too."""
    outcome = simulate("a third", cells, repeats, ratio, noise)
    assert outcome.called >= wanted
    assert outcome.strictly >= 0.7 or repeats > 2
    assert outcome.false_calls <= 0.05


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize(("cells", "repeats"), [(2, 3), (6, 3), (35, 3), (12, 2)])
def test_the_promises_hold_in_every_world(world: str, cells: int, repeats: int) -> None:
    outcome = simulate(world, cells, repeats, 1.2, 0.03)
    assert outcome.false_calls <= 0.05 + _LUCK
    assert false_tables(world, cells, repeats, 0.03) <= 0.05 + _LUCK
    assert 0.93 <= outcome.held <= (0.97 if world != "bimodal" and repeats > 2 else 1.0) + _LUCK


def test_the_strict_reading_calls_no_more_than_the_usual_one() -> None:
    rng = np.random.default_rng(2)
    strict, usual = 0, 0
    for _ in range(20):
        comparisons = compare_cells(cells_of(simulated(rng, "a third", (15, 3), ratio=1.1, noise=0.03)), "higher")
        called = [
            {place for place, verdict in enumerate(verdicts(comparisons, strict=way)) if verdict.word == "faster"}
            for way in (True, False)
        ]
        assert called[0] <= called[1]
        strict, usual = strict + len(called[0]), usual + len(called[1])
    assert strict < usual


def test_noise_is_found_again_from_cells_that_have_it() -> None:
    rng = np.random.default_rng(5)
    (scatter,) = moderated([0.0], [0.0], [1], np.exp(0.04 * rng.standard_normal((200, 5))).tolist())
    assert scatter is not None
    half_width = stats.t.ppf(0.975, scatter.df) * math.sqrt(scatter.variance)
    half_width_if_known = stats.norm.ppf(0.975) * math.sqrt(2) * 0.04
    assert half_width_if_known < half_width < 2 * half_width_if_known  # a wild cell is never ruled out


def test_noise_that_grows_with_load_is_followed_where_loads_are_enough() -> None:
    rng, loads = np.random.default_rng(7), np.repeat([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0], 5)
    least, most = loads == 1, loads == 64
    ratios = []
    for _ in range(30):
        own = variances(rng, 0.03 * 3.0 ** (np.log2(loads) / 6 - 0.5), 2).tolist()
        by_load, flat = (moderated(own, [2.0] * 35, [5] * 35, loads=known) for known in (loads.tolist(), ()))
        ratios.append([_mean(by_load, most) / _mean(by_load, least), _mean(flat, most) / _mean(flat, least)])
        few = np.where(
            loads > 4, 16.0, 1.0
        ).tolist()  # two loads have no slope that could be told from two kinds of cells
        assert moderated(own, [2.0] * 35, [5] * 35, loads=few) == flat
    sloped, without = np.median(ratios, axis=0)
    assert 1.4 * without < sloped < 9.5  # noise is 3 times as large, and its variance 9 times


def _mean(scatters: Sequence[Scatter | None], is_wanted: NDArray[np.bool_]) -> float:
    return float(
        np.exp(
            np.mean(
                [
                    math.log(scatter.variance)
                    for scatter, wanted in zip(scatters, is_wanted, strict=True)
                    if scatter and wanted
                ]
            )
        )
    )


def variances(rng: np.random.Generator, sd: Array, df: int) -> Array:
    return np.asarray(sd**2 * rng.chisquare(df, sd.size) / df)
