"""Part until_decided with few simulations: each line is printed with its figures."""

from __future__ import annotations

import pytest

from benchmarks.deciding import until_decided
from benchmarks.deciding.until_decided import Plan
from host.settings import Settings


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
