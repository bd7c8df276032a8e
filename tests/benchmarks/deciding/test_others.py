"""Parts until_decided and capacity, with few simulations: each line is printed with its figures."""

from __future__ import annotations

import pytest

from benchmarks.deciding import capacity, until_decided
from benchmarks.deciding.until_decided import Plan
from host.settings import Settings
from tests.lab.capacity.queues import QUEUES


def test_a_study_until_decided_is_held_against_its_fixed_plan(capsys: pytest.CaptureFixture[str]) -> None:
    until_decided.run(
        Settings(), 0, tables=3, plans=[Plan(6, 4, 0.02)], promises=[Plan(6, 4, 0.02, "fourfold")], sizes=[1.02]
    )
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("6 cells × 4 repeats at 2 %")]
    assert line.count("%") == 9
    assert 0 < float(line.split()[-1].strip("%")) <= 100
    (line,) = [line for line in lines if line.startswith("fourfold")]
    assert [0 <= float(each.strip("%")) <= 100 for each in line.split()[1:]] == [True] * 5


def test_each_queue_is_searched(capsys: pytest.CaptureFixture[str]) -> None:
    """A real server's search takes minutes."""
    capacity.run(Settings(), 0, searches=1, real=0)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(QUEUES) + 1
    assert lines[-1].startswith(f"all simulated queues: {len(QUEUES)} of {len(QUEUES)} intervals hold the truth")
