"""Part deciding: what designs of windows make of worlds whose truth is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.deciding import designs
from benchmarks.deciding.designs import DESIGNS, WORLDS, simulate
from host.settings import Settings


def test_designs_take_the_same_time_and_measure_every_arm_in_every_cell_alike() -> None:
    for order in DESIGNS.values():
        windows = order(np.random.default_rng(1))
        counts = {(arm, cell): 0 for arm in range(3) for cell in range(6)}
        for window in windows:
            counts[window.arm, window.cell] += 1
        assert len(set(counts.values())) == 1


def test_a_neighbour_costs_long_windows_more_verdicts_than_rounds() -> None:
    beside = WORLDS["neighbour 4 s on, 12 s off"]
    long, rounds = (
        simulate(DESIGNS[name], beside, 8) for name in ("long windows, fixed order", "rounds on two starts")
    )
    assert rounds.called > 2 * long.called
    assert rounds.half_width < long.half_width


def test_every_design_in_every_world_has_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(designs, "WORLDS", {name: WORLDS[name] for name in ("quiet", "wandering, 3 s", "drifting")})
    designs.run(Settings(home=tmp_path), 1, tables=1)
    printed = capsys.readouterr().out
    assert all(f"| {world} | {design} |" in printed for world in designs.WORLDS for design in DESIGNS)
