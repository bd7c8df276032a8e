"""Cells on the same engine starts: they count as one where starts differ by more than the runs on them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.moderation import repetitions
from lab.comparison.samples import RunSample


def deviations(rng: np.random.Generator, cells: int, blocks: int, *, start: float, run: float) -> list[np.ndarray]:
    by_cell = start * rng.standard_normal(blocks) + run * rng.standard_normal((cells, blocks))
    return list(by_cell - by_cell.mean(axis=1, keepdims=True))


def test_cells_on_starts_of_their_own_and_on_unknown_ones_count_once() -> None:
    same = [np.array([0.1, -0.1, 0.0])] * 3
    assert repetitions([{"a"}, {"b"}, {"c"}], same) == [1.0, 1.0, 1.0]
    assert repetitions([set(), set(), set()], same) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("blocks", [2, 3, 5])
def test_the_noise_of_a_start_is_found_once_for_each_cell(blocks: int) -> None:
    rng = np.random.default_rng(blocks)
    steady = deviations(rng, 6, blocks, start=0.03, run=0.0)
    assert repetitions([{"a"}] * 6, steady) == pytest.approx([6.0] * 6)
    assert repetitions([{"a"}] * 6 + [{"b"}], [*steady, steady[0]]) == pytest.approx([6.0] * 6 + [1.0])


@pytest.mark.parametrize("blocks", [2, 3, 5])
@pytest.mark.parametrize(("start", "run", "low", "high"), [(0.0, 0.03, 1.0, 1.4), (0.03, 0.01, 4.0, 6.0)])
def test_what_cells_of_a_start_have_in_common_is_measured(
    blocks: int, start: float, run: float, low: float, high: float
) -> None:
    rng = np.random.default_rng(blocks)
    groups = [deviations(rng, 6, blocks, start=start, run=run) for _ in range(40)]
    factors = repetitions(
        [{group} for group in range(40) for _ in range(6)],
        [deviations_of for group in groups for deviations_of in group],
    )
    assert low <= np.mean(factors) <= high


def test_a_cell_without_a_block_counts_with_others_of_its_starts() -> None:
    full, short = np.array([0.1, -0.1, 0.0]), np.array([0.1, -0.1])
    assert repetitions([{"a", "b", "c"}, {"a", "b", "c"}, {"a", "b"}], [full, full, short]) == pytest.approx([3.0] * 3)


def test_single_blocks_of_controls_have_signs_to_go_by() -> None:
    up, down = np.array([0.02]), np.array([-0.01])
    assert repetitions([{"a"}] * 4, [up] * 4) == pytest.approx([4.0] * 4)
    assert repetitions([{"a"}] * 4, [up, down, up, down]) == [1.0] * 4


def test_cells_of_one_start_know_noise_less_well_than_independent_ones() -> None:
    logs = np.array([0.02, -0.03, 0.01])

    def compared(*, shared: bool) -> list[Comparison]:
        return compare_cells([cell(place, logs + 0.0001 * place, shared=shared) for place in range(6)], "higher")

    together, apart = (_half_width(compared(shared=shared)[0]) for shared in (True, False))
    assert together > 1.2 * apart


def cell(place: int, log_ratios: np.ndarray, *, shared: bool) -> CellRuns:
    launches = [(block, None if shared else place) for block in range(len(log_ratios))]
    return CellRuns(
        [RunSample(f"b{place}-{block}", "plain", block, 100.0, None, at) for block, at in enumerate(launches)],
        [
            RunSample(f"c{place}-{block}", "draft", block, 100.0 * math.exp(log_ratio), None, launches[block])
            for block, log_ratio in enumerate(log_ratios)
        ],
    )


def _half_width(comparison: Comparison) -> float:
    assert comparison.ratio is not None
    assert comparison.ratio.high is not None
    return math.log(comparison.ratio.high / comparison.ratio.value)
