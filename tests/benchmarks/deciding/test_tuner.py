"""Part tuner: what the tuner and full grids choose in worlds whose truth is known."""

from __future__ import annotations

import pytest

from benchmarks.deciding.tuner import GRID_RUNS, METHODS, grid, run, simulate, tuned
from host.settings import Settings
from tests.lab.tuning.worlds import SPACE, World


def test_the_tuner_chooses_well_with_half_of_the_grid() -> None:
    """Few worlds here; `python -m benchmarks tuner` has 500."""
    got = simulate(tuned, 14)
    assert got.good_everywhere >= 0.9
    assert got.good_loads >= 0.97
    assert got.most_runs <= GRID_RUNS / 2
    assert simulate(grid(1), 14).good_everywhere < got.good_everywhere


def test_without_noise_a_grid_finds_the_truth() -> None:
    world = World(0, run_sd=0.0, start_sd=0.0)
    runs, chosen = grid(1)(world)
    assert len(runs) == len(SPACE.settings) * len(SPACE.loads)
    assert [world.loss(chosen[load], load) for load in SPACE.loads] == [0.0] * len(SPACE.loads)


def test_the_table_has_a_line_for_each_way_and_the_aim(capsys: pytest.CaptureFixture[str]) -> None:
    run(Settings(), 0, worlds=2)
    lines = capsys.readouterr().out.strip().splitlines()
    assert [line[:26].strip() for line in lines[3:-1]] == list(METHODS)
    assert "95 %" in lines[-1]
