"""Part power: what each rule says of tables whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.deciding.power import PLANS, RULES, Calls, run, simulate
from host.settings import Settings
from tests.lab.comparison.simulations.tables_of_cells import Table


def calls(rule: str, baseline: list[list[float]], candidate: list[list[float]]) -> Calls:
    """Of runs' rates, cell by cell; the truth plays no part."""
    base, tried = np.log(baseline), np.log(candidate)
    return RULES[rule](Table(tuple(range(len(base))), tuple(range(len(base))), base, tried, np.zeros(len(base))))


def test_a_flat_threshold_looks_at_the_ratio_of_the_means_alone() -> None:
    noisy, faster, slower = [100.0, 200.0], [110.0, 199.0], [90.0, 200.0]
    for rule, expected in (("ratio beyond 2 %", [1, -1]), ("ratio beyond 20 %", [0, 0])):
        assert list(calls(rule, [noisy, noisy], [faster, slower])) == expected


def test_intervals_of_arms_are_apart_only_where_they_leave_a_gap() -> None:
    base, apart, touching = [100.0, 101.0, 99.0], [106.0, 107.0, 105.0], [104.0, 105.0, 103.0]
    assert list(calls("95 % intervals of arms apart", [base, base, apart], [apart, touching, base])) == [1, 0, -1]


def test_a_cell_alone_pays_for_the_table_and_ours_for_its_like() -> None:
    rng = np.random.default_rng(1)
    base = np.exp(0.02 * rng.standard_normal((12, 3)))
    tried = 1.1 * np.exp(0.02 * rng.standard_normal((12, 3)))
    ours, strict, alone = (
        sum(call == 1 for call in calls(rule, base.tolist(), tried.tolist()))
        for rule in ("Drafthouse", "Drafthouse, strict", "each cell alone, Holm")
    )
    assert ours >= strict > alone


def test_calling_everything_faster_finds_every_effect_and_errs_in_half() -> None:
    shares = simulate(lambda table: [1] * len(table.truth), PLANS[2], tables=3, seed=0)
    assert (shares.called, shares.false_calls, shares.false_tables) == (1.0, 0.5, 1.0)


def test_no_difference_where_there_is_an_effect_is_a_false_call() -> None:
    shares = simulate(lambda table: [None] * len(table.truth), PLANS[2], tables=3, seed=0)
    assert (shares.called, shares.false_calls, shares.false_tables) == (0.0, 1.0, 0.0)


def test_every_study_and_rule_has_its_line_in_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(Settings(home=tmp_path), 1, tables=1, picture=tmp_path / "power.svg")
    printed, picture = capsys.readouterr().out, (tmp_path / "power.svg").read_text(encoding="utf-8")
    for words in (*(plan.name for plan in PLANS), *RULES):
        assert words in printed
    for words in (*(plan.name.split(", ")[1] for plan in PLANS), *RULES):
        assert words in picture
