"""The variances of engine starts, runs and requests, from ratios that were measured before."""

from __future__ import annotations

import numpy as np
import pytest

from lab.planning.components import Components, PastRatio, components


def measured(cells: int, starts: int, runs: int, *, start_sd: float, run_sd: float) -> list[PastRatio]:
    """Cells whose truth is known: log ratios around 0.3."""
    rng = np.random.default_rng(cells * starts * runs)
    return [
        PastRatio(cell, (cell, start), 0.3 + of_start + run_sd * rng.standard_normal(), 32)
        for cell in range(cells)
        for start in range(starts)
        for of_start in [start_sd * rng.standard_normal()]
        for _ in range(runs)
    ]


def test_starts_and_runs_are_told_apart_where_a_start_had_several_runs() -> None:
    estimated = components(measured(200, 3, 4, start_sd=0.03, run_sd=0.02))
    assert estimated is not None
    assert estimated.start == pytest.approx(0.03**2, rel=0.15)
    assert estimated.run == pytest.approx(0.02**2, rel=0.15)
    assert (estimated.num_prompts, len(estimated.gains)) == (32, 200)
    assert np.mean(estimated.gains) == pytest.approx(0.3, abs=0.01)


def test_starts_that_do_not_matter_have_a_variance_near_0() -> None:
    estimated = components(measured(200, 3, 4, start_sd=0.0, run_sd=0.02))
    assert estimated is not None
    assert estimated.start is not None
    assert 0 <= estimated.start < 0.004**2


def test_with_one_run_a_start_more_runs_on_it_promise_nothing() -> None:
    estimated = components(measured(100, 3, 1, start_sd=0.03, run_sd=0.02))
    assert estimated is not None
    assert estimated.start is None
    assert estimated.of_block(1, 32) == pytest.approx(0.03**2 + 0.02**2, rel=0.2)
    assert estimated.of_block(2, 32) is None


def test_of_single_starts_nothing_is_known_of_starts() -> None:
    assert components(measured(50, 1, 5, start_sd=0.03, run_sd=0.02)) is None
    assert components([]) is None


def test_more_prompts_reduce_what_requests_add_to_a_run_and_nothing_else() -> None:
    variances = Components(start=1.0, run=4.0, request=64.0, num_prompts=32.0, gains=(0.0,))
    assert variances.of_block(1, 32) == 1 + 4
    assert variances.of_block(1, 64) == 1 + 2 + 1
    assert variances.of_block(2, 64) == 1 + (2 + 1) / 2
    all_of_requests = Components(start=1.0, run=4.0, request=640.0, num_prompts=32.0, gains=(0.0,))
    assert all_of_requests.of_block(1, 64) == 1 + 2


def test_components_are_those_of_a_nested_analysis_of_variance() -> None:
    """By hand: the scatter of means of two runs is that of starts and half that of runs."""
    starts, runs = (0.1, 0.3), (-0.02, 0.02)
    past = [
        PastRatio(cell, start, of_start + run, 20 + 20 * (cell % 2))
        for cell in range(6)
        for start, of_start in enumerate(starts)
        for run in runs
    ]
    estimated = components(past, request=0.5)
    assert estimated is not None
    assert estimated.run == pytest.approx(2 * 0.02**2)
    assert estimated.start == pytest.approx(2 * 0.1**2 - 0.02**2)
    assert estimated.request == 0.5
    assert estimated.num_prompts == pytest.approx(2 / (1 / 20 + 1 / 40))
    assert estimated.gains == pytest.approx((0.2,) * 6)
    assert components(past[4:]) is None  # five cells: fewer degrees of freedom than are wanted


def test_without_prompts_the_share_of_requests_is_unknown() -> None:
    estimated = components([PastRatio(cell, start, 0.1 * start) for cell in range(6) for start in range(2)])
    assert estimated is not None
    assert (estimated.start, estimated.num_prompts) == (None, None)
    assert estimated.of_block(1, 1) == estimated.of_block(1, 1000) == pytest.approx(2 * 0.05**2)
