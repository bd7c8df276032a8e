"""Arms that are identical to the baseline: they claim nothing, cost the others nothing, and show the noise of runs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from lab.advice.gate import gate
from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.samples import Array, RunSample
from lab.comparison.verdict import Judged, control, verdicts


def cell(name: str, log_ratios: Array, *, control: bool = False) -> CellRuns:
    rates = np.exp(log_ratios)
    return CellRuns(
        [RunSample(f"b-{name}-{block}", "plain", block, 100.0) for block in range(len(rates))],
        [RunSample(f"c-{name}-{block}", "draft", block, 100.0 * rate) for block, rate in enumerate(rates)],
        control=control,
    )


def cells(
    rng: np.random.Generator, count: int, repeats: int, *, ratio: float = 1.0, noise: float = 0.03
) -> list[Array]:
    return [math.log(ratio) + noise * rng.standard_normal(repeats) for _ in range(count)]


def compared(tried: list[Array], controls: list[Array]) -> list[Comparison]:
    every = [cell(f"t{place}", logs) for place, logs in enumerate(tried)]
    every += [cell(f"c{place}", logs, control=True) for place, logs in enumerate(controls)]
    return compare_cells(every, "higher")


def test_controls_make_no_claim_and_are_not_corrected_for() -> None:
    rng = np.random.default_rng(1)
    tried, same = cells(rng, 3, 3, ratio=1.2), cells(rng, 5, 3)
    comparisons = compared(tried, same)
    judged = verdicts(comparisons, strict=True)
    assert [verdict.word for verdict in judged[3:]] == ["control"] * 5
    assert all(verdict.p_same is None and verdict.more_repeats is None for verdict in judged[3:])
    assert judged[:3] == verdicts(comparisons[:3], strict=True)
    assert judged[0] != verdicts([*comparisons[:3], *compared(same, [])], strict=True)[0]


def test_controls_show_the_noise_so_that_single_repeats_decide() -> None:
    rng = np.random.default_rng(2)
    tried, same = cells(rng, 1, 1, ratio=1.5, noise=0.01), cells(rng, 8, 1, noise=0.01)
    (comparison, *_) = compared(tried, same)
    assert comparison.basis == "1 repeat, with the scatter of 8 controls"
    assert verdicts([comparison])[0].word == "faster"


def test_a_control_says_more_of_the_noise_than_another_cell() -> None:
    rng = np.random.default_rng(3)
    tables = [(cells(rng, 4, 2), cells(rng, 4, 2)) for _ in range(40)]
    compared_cells = [compared(tried, same)[0] for tried, same in tables]
    unknown = [compared([*tried, *same], [])[0] for tried, same in tables]
    assert compared_cells[0].basis == "2 repeats, with the scatter of 3 like cells and 4 controls"
    assert unknown[0].basis == "2 repeats, with the scatter of 7 like cells"
    assert mean_df(compared_cells) > mean_df(unknown) + 0.2


def mean_df(comparisons: list[Comparison]) -> float:
    return float(
        np.mean(
            [
                comparison.effect.spread.blocks_df
                for comparison in comparisons
                if comparison.effect and comparison.effect.spread
            ]
        )
    )


@pytest.mark.parametrize("repeats", [1, 3])
def test_with_controls_tables_without_an_effect_seldom_hold_a_call(repeats: int) -> None:
    rng, tables, false, alarms = np.random.default_rng(4), 150, 0, 0
    for _ in range(tables):
        noise = 0.03 * np.exp(0.3 * rng.standard_normal(12))
        logs = [sd * rng.standard_normal(repeats) for sd in noise]
        judged = verdicts(compared(logs[:6], logs[6:]))
        false += any(verdict.word in {"faster", "slower"} for verdict in judged)
        alarms += any(verdict.p_differs is not None and verdict.p_differs <= 0.05 for verdict in judged[6:])
    luck = 3 * math.sqrt(0.05 * 0.95 / tables)
    assert false / tables <= 0.05 + luck
    assert alarms / tables <= 0.05 + luck


def sentence(tried: list[Array], same: list[Array]) -> str:
    comparisons = compared(tried, same)
    judged = map(Judged, comparisons, verdicts(comparisons))
    return control("same", [cell for cell in judged if cell.comparison.control]).sentence


def test_a_control_says_how_far_it_differs_and_whether_runs_do_so() -> None:
    rng = np.random.default_rng(5)
    tried = cells(rng, 6, 3)
    usual = np.array([0.0129, 0.02, 0.006])
    assert sentence(tried, [usual]) == "identical to the baseline: differs by 1.3 %, as runs of this study do"
    both = sentence(tried, [usual, -usual])
    assert both == "identical to the baseline: differs by 1.3 %, as runs of this study do"
    wrong = sentence(tried, [usual + 0.3, usual])
    assert wrong.startswith(
        "identical to the baseline, and yet differs by 1.3 to 36.7 %: more than runs of this study do"
    )
    assert "in 1 of 2 cells" in wrong


def test_a_control_without_anything_to_judge_it_by_says_so() -> None:
    assert sentence([], [np.array([0.02])]) == (
        "identical to the baseline: differs by 2.0 %; how much runs of this study differ is not known yet"
    )
    assert sentence([], [np.empty(0)]) == "identical to the baseline, and not measured beside it"


def test_a_gate_does_not_ask_controls() -> None:
    rng = np.random.default_rng(6)
    tried, slow = cells(rng, 4, 3, noise=0.003), [np.array([-0.2, -0.21, -0.2])]
    assert gate(compared(tried, slow), 0.05) == "not slower"
    assert gate(compared([*tried, *slow], []), 0.05) == "slower"
