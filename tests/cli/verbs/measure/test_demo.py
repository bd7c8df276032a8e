"""`drafthouse demo`: which study it measures on which host; `make demo` itself is run by hand."""

from __future__ import annotations

import psutil
import pytest

from cli.verbs.operate.up import demo_study


@pytest.mark.parametrize(("gib", "order"), [(4, "interleaved"), (16, "side_by_side")])
def test_engines_are_up_side_by_side_where_memory_is_left_for_all(
    monkeypatch: pytest.MonkeyPatch, gib: int, order: str
) -> None:
    left = psutil.virtual_memory()._replace(available=gib * 2**30)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: left)
    monkeypatch.setattr("cli.verbs.operate.up.nvidia_gpus", tuple)
    assert demo_study().order == order


def test_engines_that_would_share_a_gpu_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.verbs.operate.up.nvidia_gpus", lambda: ("NVIDIA H200",))
    assert demo_study().order == "interleaved"
