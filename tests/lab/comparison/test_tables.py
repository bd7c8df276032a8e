"""Tables of ratios, and sweeps as one number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.samples import RunSample
from lab.comparison.tables import gmean, ratio_tables, starts_of_means, sweep
from lab.comparison.verdict import verdicts


def runs(arm: str, values: list[float], *, blocks_a_launch: int | None = None) -> list[RunSample]:
    return [
        RunSample(f"{arm}-{block}", arm, block, value, launch=blocks_a_launch and block // blocks_a_launch)
        for block, value in enumerate(values)
    ]


def arms(baseline: list[float], candidate: list[float], *, arm: str = "draft") -> CellRuns:
    return CellRuns(runs("plain", baseline), runs(arm, candidate))


def compared(*values: list[float]) -> Comparison:
    return compare_cells([arms(*values)], "higher")[0]


def swept(*cells: CellRuns) -> Comparison:
    return sweep(cells, compare_cells(cells, "higher"), "higher")


_TWICE = compared([10.0, 10.1, 9.9], [20.0, 20.1, 19.9])
_HALF = compared([10.0, 10.1, 9.9], [5.0, 5.05, 4.95])
_UNSURE = compared([10.0, 10.1, 9.9], [10.3, 9.7, 10.4])


def test_a_table_has_a_cell_for_each_pair_that_was_measured() -> None:
    table = ratio_tables({"": {("story", "low"): _TWICE, ("story", "high"): _HALF, ("code", "low"): _TWICE}})[""]
    assert (table.rows, table.columns) == (("story", "code"), ("low", "high"))
    assert table.cells["story", "high"].verdict.word == "slower"
    assert ("code", "high") not in table.cells
    assert table.gmeans_by_row == pytest.approx({"story": 1.0, "code": 2.0}, rel=1e-3)
    assert table.gmeans_by_column == pytest.approx({"low": 2.0, "high": 0.5}, rel=1e-3)


def test_the_cells_of_a_table_are_corrected_for_each_other() -> None:
    alone = verdicts([_TWICE])[0].p_differs
    assert alone is not None
    table = ratio_tables({"": {("a", "x"): _TWICE, ("b", "x"): _UNSURE}})[""]
    assert table.cells["a", "x"].verdict.p_differs == 2 * alone


def test_an_unknown_ratio_makes_the_mean_unknown() -> None:
    assert gmean([_TWICE, compared([], [])]) is None
    assert gmean([]) is None


def bounds(comparison: Comparison) -> tuple[float, float]:
    assert comparison.ratio is not None
    assert comparison.ratio.low is not None
    assert comparison.ratio.high is not None
    return comparison.ratio.low, comparison.ratio.high


def test_a_sweep_is_the_geometric_mean_over_cells() -> None:
    measured = np.exp(np.random.default_rng(3).normal(3.0, 0.1, size=(6, 2, 4)))  # concurrency, arm, block
    comparison = swept(*(arms(cell[0].tolist(), cell[1].tolist()) for cell in measured))
    assert comparison.ratio is not None
    assert comparison.ratio.value == pytest.approx(stats.gmean(measured[:, 1] / measured[:, 0], axis=None))
    low, high = bounds(comparison)
    assert comparison.ratio.value**2 == pytest.approx(low * high)


def test_the_sweep_of_a_single_cell_has_the_paired_t_interval() -> None:
    blocks = np.random.default_rng(3).normal(0.1, 0.1, size=4)
    comparison = swept(arms([1.0] * 4, np.exp(blocks).tolist()))
    expected = stats.ttest_1samp(blocks, 0.0).confidence_interval(0.95)
    assert bounds(comparison) == pytest.approx((math.exp(expected.low), math.exp(expected.high)))


def test_a_sweep_leaves_out_blocks_that_are_not_whole() -> None:
    assert swept(arms([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]), arms([1.0, 1.0], [2.0, 2.0])).blocks == 2
    cell = arms([1.0], [2.0])
    twice = CellRuns([*cell.baseline, *cell.baseline], cell.candidate)
    with pytest.raises(ValueError, match="two runs"):
        sweep([twice], [compared([1.0], [2.0])], "higher")


def test_repeats_of_a_sweep_on_one_start_are_one_observation() -> None:
    baseline, candidate = ([10.0, 10.2, 10.1, 9.9], [20.0, 20.3, 20.1, 20.2])
    cell = CellRuns(runs("plain", baseline, blocks_a_launch=2), runs("draft", candidate, blocks_a_launch=2))
    comparison = swept(cell, cell)
    assert (comparison.repeats, comparison.blocks) == (4, 2)
    assert comparison.basis.startswith("4 repeats on 2 engine starts, with ")
    once = swept(arms([10.0], [20.0]), arms([10.0], [20.0]))
    assert (once.ratio and once.ratio.low, once.basis) == (None, "1 repeat, which cannot show how much runs differ")


def test_a_sweep_of_two_starts_is_decided_by_what_all_cells_and_arms_show() -> None:
    """The paired t interval of two starts has a factor of 12.7."""
    rng = np.random.default_rng(5)
    base = 100 * np.exp(rng.normal(0, 0.05, size=(6, 2)))
    of_arms = [
        [arms(row.tolist(), (row * ratio * np.exp(rng.normal(0, 0.05, 2))).tolist(), arm=name) for row in base]
        for name, ratio in (("draft", 1.3), ("head", 1.2))
    ]
    comparisons = compare_cells([cell for cells in of_arms for cell in cells], "higher")
    starts = starts_of_means(of_arms)
    means = [
        sweep(cells, of_cells, "higher", starts)
        for cells, of_cells in zip(of_arms, (comparisons[:6], comparisons[6:]), strict=True)
    ]
    assert [verdict.word for verdict in verdicts(means)] == ["faster", "faster"]
    assert "engine starts that differ by" in means[0].basis


def test_a_sweep_of_many_starts_has_the_paired_t_interval_over_them() -> None:
    """What is subtracted as the noise of runs is added again: more cells do not show better how much starts differ."""
    rng = np.random.default_rng(4)
    logs = 0.03 * rng.standard_normal(8) + 0.02 * rng.standard_normal((6, 8))
    over_all = swept(*[arms([100.0] * 8, (100 * np.exp(cell)).tolist()) for cell in logs])
    means = logs.mean(axis=0)
    half = stats.t.ppf(0.975, 7) * means.std(ddof=1) / math.sqrt(8)
    assert bounds(over_all) == pytest.approx((math.exp(means.mean() - half), math.exp(means.mean() + half)))


def test_a_sweep_of_repeats_that_are_all_the_same_is_certain() -> None:
    """Acceptance of greedy decoding is the same number each time, whatever starts do to speed."""
    comparison = swept(*(arms([2.0, 2.0, 2.0], [value] * 3) for value in (2.2, 2.4, 2.6)))
    low, high = bounds(comparison)
    assert low == pytest.approx(high) == pytest.approx((1.1 * 1.2 * 1.3) ** (1 / 3))
