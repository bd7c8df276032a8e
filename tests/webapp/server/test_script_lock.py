"""Visitors get their pages one after the other, and nobody waits for one that waits for something else."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from webapp.server.script_lock import Turns

#: Nothing here takes that long; a machine may stand still for a while.
PATIENCE_S = 300.0


def test_scripts_run_one_after_the_other_and_all_of_them_run() -> None:
    turns, at_once, most, lock = Turns(PATIENCE_S), 0, 0, threading.Lock()

    def script(number: int) -> int:
        nonlocal at_once, most
        with turns.turn():
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


def test_a_page_that_waits_for_something_else_does_not_keep_the_next_one_waiting() -> None:
    turns, answered, begun = Turns(0.05), threading.Event(), threading.Event()

    def waits() -> None:
        with turns.turn():
            begun.set()
            assert answered.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as visitors:
        waiting = visitors.submit(waits)
        assert begun.wait(PATIENCE_S)
        with turns.turn():
            assert not waiting.done()
        answered.set()
        waiting.result(PATIENCE_S)


def test_a_script_that_breaks_hands_its_turn_on() -> None:
    turns = Turns(PATIENCE_S)
    with pytest.raises(ValueError, match="broken"), turns.turn():
        raise ValueError("broken")
    with turns.turn():
        pass


def test_who_lingers_goes_on_as_soon_as_somebody_waits() -> None:
    turns, begun = Turns(PATIENCE_S), threading.Event()

    def lingers() -> None:
        with turns.turn():
            begun.set()
            turns.linger(PATIENCE_S)

    with ThreadPoolExecutor(1) as visitors:
        lingering = visitors.submit(lingers)
        assert begun.wait(PATIENCE_S)
        with turns.turn():
            pass
        lingering.result(PATIENCE_S)
