"""Time for the code of answers, which has next to nothing of a processor beside others: its priority is the lowest."""

from __future__ import annotations

import pytest

from warehouse.sandbox import code_runner

ENOUGH_S = 600.0


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer may wait for a processor as long as it takes."""
    child = code_runner._CHILD.replace("priority.lower_own_session(); ", "")
    monkeypatch.setattr(code_runner, "_CHILD", child.replace("sys.exit(", "code_child._ELAPSED_S = 300.0; sys.exit("))
    monkeypatch.setattr(code_runner, "_PATIENCE_S", ENOUGH_S)
