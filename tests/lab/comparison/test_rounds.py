"""Cells measured in rounds: which rounds count, and what repeating them is evidence of."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lab.comparison.compare import CellRuns, Comparison
from lab.comparison.samples import RunSample
from lab.comparison.spread import Spread
from tests.lab.comparison.one_cell import compare

LOGS = np.array([0.10, 0.14, 0.06, 0.12, 0.08])


def cell(*repeats: np.ndarray, starts: tuple[int, ...] | None = None) -> CellRuns:
    """Rounds whose candidate is faster by these log ratios; each repeat on a start of its own if not said."""
    launches = starts or tuple(range(len(repeats)))

    def run(arm: str, block: int, values: np.ndarray) -> RunSample:
        mean = float(np.nanmean(values))
        return RunSample(f"{arm}-{block}", arm, block, mean, launch=launches[block], rounds=values)

    return CellRuns(
        [run("plain", block, np.full(logs.size, 100.0)) for block, logs in enumerate(repeats)],
        [run("draft", block, 100.0 * np.exp(logs)) for block, logs in enumerate(repeats)],
    )


def compared(of: CellRuns) -> tuple[Comparison, Spread]:
    comparison = compare(of.baseline, of.candidate, "higher")
    assert comparison.effect is not None
    assert comparison.effect.spread is not None
    return comparison, comparison.effect.spread


def test_the_number_is_the_mean_of_the_rounds_log_ratios() -> None:
    comparison, around = compared(cell(LOGS))
    assert comparison.effect is not None
    assert comparison.effect.value == pytest.approx(LOGS.mean())
    assert around.blocks == pytest.approx(LOGS.var(ddof=1) / 5)
    assert around.blocks_df == 4
    assert around.rest == pytest.approx(2 * 0.03**2)
    assert comparison.basis.startswith("1 repeat of 5 rounds on 1 engine start, with engine starts that differ by")


def test_rounds_that_an_arm_lacks_are_left_out() -> None:
    gap = LOGS.copy()
    gap[1] = np.nan
    comparison, around = compared(cell(gap))
    assert comparison.effect is not None
    assert comparison.effect.value == pytest.approx(np.delete(LOGS, 1).mean())
    assert around.blocks_df == 3


def test_a_repeat_that_lacks_rounds_does_not_look_certain() -> None:
    """Five rounds of one repeat and two others of the next: the mean of two means, each with its own variance."""
    noise = np.array([[0.1, 0.14, 0.06, 0.12, 0.08, np.nan, np.nan], [*[np.nan] * 5, 0.05, 0.15]])
    _, around = compared(cell(*noise))
    parts = np.array([np.nanvar(noise[0], ddof=1) / 5, np.nanvar(noise[1], ddof=1) / 2]) / 4
    assert around.blocks == pytest.approx(parts.sum())
    assert around.blocks_df == pytest.approx(parts.sum() ** 2 / (parts[0] ** 2 / 4 + parts[1] ** 2 / 1))


def test_a_repeat_with_a_single_round_leaves_the_rule_over_repeats() -> None:
    """One round cannot show how much rounds differ."""
    once = LOGS.copy()
    once[1:] = np.nan
    both = cell(LOGS, once)
    base, tried = ([replace(run, rounds=None) for run in runs] for runs in (both.baseline, both.candidate))
    assert compare(both.baseline, both.candidate, "higher") == compare(base, tried, "higher")


def test_engine_starts_of_runs_without_a_partner_do_not_count() -> None:
    """The baseline lost its second repeat, and the candidate its third."""
    three = cell(LOGS, LOGS, LOGS)
    comparison, _ = compared(replace(three, baseline=three.baseline[::2], candidate=three.candidate[:2]))
    assert (comparison.repeats, comparison.starts) == (1, 1)
    assert comparison.basis.startswith("1 repeat of 5 rounds on 1 engine start, with")


def test_what_every_repeat_shows_again_is_no_evidence_of_precision() -> None:
    """The prompts of a round are the same in every repeat."""
    once, twice = (compared(cell(*[LOGS] * repeats))[1] for repeats in (1, 2))
    assert twice.blocks == pytest.approx(float(once.blocks))
    noise = np.random.default_rng(1).normal(0, 0.03, (2, 5))
    apart = compared(cell(*noise))[1]
    assert apart.blocks == pytest.approx(noise.mean(axis=0).var(ddof=1) / 5)


def test_starts_average_out_and_rounds_on_one_start_do_not_average_them() -> None:
    one, two = (compared(cell(LOGS, LOGS, starts=starts))[1] for starts in ((0, 0), (0, 1)))
    assert float(two.rest) < float(one.rest) / 2
    assert one.rest == pytest.approx(2 * 0.03**2)


def test_a_repeat_without_rounds_leaves_the_rule_over_repeats() -> None:
    whole = cell(LOGS, LOGS + 0.01)
    mixed = CellRuns([replace(whole.baseline[0], rounds=None), whole.baseline[1]], whole.candidate)
    base, tried = ([replace(run, rounds=None) for run in runs] for runs in (whole.baseline, whole.candidate))
    assert compare(mixed.baseline, mixed.candidate, "higher") == compare(base, tried, "higher")
    single = cell(LOGS[:1])
    basis = compare(single.baseline, single.candidate, "higher").basis
    assert basis == "1 repeat, which cannot show how much runs differ"  # a single round is a long window


def test_the_difference_has_both_levels_too() -> None:
    comparison, _ = compared(cell(LOGS))
    assert comparison.difference is not None
    assert comparison.ratio is not None
    assert comparison.difference.value == pytest.approx(100 * (np.exp(LOGS).mean() - 1))
    assert comparison.difference.low == pytest.approx(100 * ((comparison.ratio.low or 0) - 1), abs=0.2)
