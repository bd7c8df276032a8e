"""Visitors get their pages one after the other, and nobody waits for one that waits for something else."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from webapp.server import script_lock
from webapp.server.script_lock import ScriptLock

#: Nothing here takes that long; a machine may stand still for a while.
PATIENCE_S = 600.0


def test_scripts_run_one_after_the_other_and_all_of_them_run() -> None:
    scripts, at_once, most, lock = ScriptLock(PATIENCE_S), 0, 0, threading.Lock()

    def script(number: int) -> int:
        nonlocal at_once, most
        with scripts.hold():
            with lock:
                at_once += 1
                most = max(most, at_once)
            threading.Event().wait(0.001)
            with lock:
                at_once -= 1
        return number

    with ThreadPoolExecutor(20) as visitors:
        assert sorted(visitors.map(script, range(60), timeout=PATIENCE_S)) == list(range(60))
    assert most == 1


def test_a_page_that_waits_does_not_hold_up_the_next() -> None:
    scripts, answered, begun = ScriptLock(0.05), threading.Event(), threading.Event()

    def waits() -> None:
        with scripts.hold():
            begun.set()
            assert answered.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as visitors:
        waiting = visitors.submit(waits)
        assert begun.wait(PATIENCE_S)
        with scripts.hold():
            assert not waiting.done()
        answered.set()
        waiting.result(PATIENCE_S)


def test_a_script_that_breaks_releases_the_lock() -> None:
    scripts = ScriptLock(PATIENCE_S)
    with pytest.raises(ValueError, match="broken"), scripts.hold():
        raise ValueError("broken")
    with scripts.hold():
        pass


def test_who_has_had_least_is_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """One visitor reloads without a pause; another comes last and goes before all of that one's waiting scripts."""
    scripts, order, lock = ScriptLock(PATIENCE_S), list[str](), threading.Lock()

    def script(visitor: str) -> None:
        with scripts.hold(visitor), lock:
            order.append(visitor)

    with ThreadPoolExecutor(10) as visitors:
        with scripts.hold("hasty"):
            threading.Event().wait(0.01)
            hasty = [visitors.submit(script, "hasty") for _ in range(5)]
            _until(lambda: len(scripts._waiting) == 5)
            others = [visitors.submit(script, "patient"), visitors.submit(script, "new")]
            _until(lambda: len(scripts._waiting) == 7)
        for done in (*hasty, *others):
            done.result(PATIENCE_S)
    assert order == ["patient", "new", *["hasty"] * 5]
    assert scripts._had["hasty"][0] >= 0.01
    monkeypatch.setattr(script_lock, "FORGOTTEN_AFTER_S", 0.001)
    threading.Event().wait(0.05)
    with scripts.hold("another"):
        pass
    assert "hasty" not in scripts._had


def _until(holds: Callable[[], bool]) -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < until_s
        time.sleep(0.005)
