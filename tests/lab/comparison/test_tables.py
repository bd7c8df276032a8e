"""Tables of ratios, and sweeps as one number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from lab.comparison.compare import Comparison
from lab.comparison.samples import RunSample
from lab.comparison.tables import Arms, gmean, ratio_tables, sweep
from lab.comparison.verdict import verdicts
from tests.lab.comparison.one_cell import compare


def arms(baseline: list[float], candidate: list[float]) -> Arms:
    return [RunSample("b", "plain", block, value) for block, value in enumerate(baseline)], [
        RunSample("c", "draft", block, value) for block, value in enumerate(candidate)
    ]


def compared(*values: list[float]) -> Comparison:
    return compare(*arms(*values), "higher")


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


def test_a_sweep_is_the_geometric_mean_in_each_block() -> None:
    rng = np.random.default_rng(3)
    measured = np.exp(rng.normal(3.0, 0.1, size=(6, 2, 4)))  # concurrency, arm, block
    comparison = sweep([arms(cell[0].tolist(), cell[1].tolist()) for cell in measured], "higher")
    blocks = np.log(stats.gmean(measured[:, 1] / measured[:, 0], axis=0))
    expected = stats.ttest_1samp(blocks, 0.0).confidence_interval(0.95)
    assert comparison.ratio is not None
    assert comparison.ratio.value == pytest.approx(math.exp(blocks.mean()))
    assert (comparison.ratio.low, comparison.ratio.high) == pytest.approx(
        (math.exp(expected.low), math.exp(expected.high))
    )


def test_a_sweep_leaves_out_blocks_that_are_not_whole() -> None:
    comparison = sweep([arms([1.0, 1.0, 1.0], [2.0, 2.0, 2.0]), arms([1.0, 1.0], [2.0, 2.0])], "higher")
    assert comparison.blocks == 2
    baseline, candidate = arms([1.0], [2.0])
    with pytest.raises(ValueError, match="two runs"):
        sweep([([*baseline, *baseline], candidate)], "higher")


def test_repeats_of_a_sweep_on_one_start_are_one_observation() -> None:
    def started(arm: str, values: list[float]) -> list[RunSample]:
        return [RunSample(arm, arm, block, value, launch=block // 2) for block, value in enumerate(values)]

    cells = [(started("plain", [10.0, 10.2, 10.1, 9.9]), started("draft", [20.0, 20.3, 20.1, 20.2]))] * 2
    comparison = sweep(cells, "higher")
    assert (comparison.repeats, comparison.blocks, comparison.basis) == (4, 2, "4 repeats on 2 engine starts")
