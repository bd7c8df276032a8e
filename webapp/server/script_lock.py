"""Runs the scripts of several visitors one after the other; visitors who used least processor time go first.

The work-around `script_lock` halves the wait of half of the visitors who come at once: scripts share one interpreter,
so those that run side by side all end when the last one does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple

from webapp.server import workarounds

#: A script that holds the lock for longer most likely waits for something other than the interpreter.
LONGEST_HOLD_S = 0.5
#: Half-life of the processor time counted against a visitor.
FORGOTTEN_AFTER_S = 10.0


class _Waiting(NamedTuple):
    visitor: str
    number: int  # in order of arrival


class ScriptLock:
    """A lock that the next script gets anyway after `longest_s`; safe to use from any thread."""

    def __init__(self, longest_s: float = LONGEST_HOLD_S) -> None:
        self._longest_s = longest_s
        self._changed = threading.Condition()
        self._began: dict[object, float] = {}  # each script that has not ended, by the monotonic clock
        self._waiting: list[_Waiting] = []
        self._number = 0
        self._had: dict[str, tuple[float, float]] = {}  # by visitor: the seconds used, and when they were counted

    @contextmanager
    def hold(self, visitor: str = "") -> Iterator[None]:
        """Wait for the lock, hold it during the block and release it at the end, also after an error."""
        with self._changed:
            self._number += 1
            mine = _Waiting(visitor, self._number)
            self._waiting.append(mine)
            self._changed.notify_all()
            while (wait_s := self._wait_s(mine)) != 0:
                self._changed.wait(wait_s)
            self._waiting.remove(mine)
            began_s = self._began[mine] = time.monotonic()
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                del self._began[mine]
                self._charge(visitor, time.monotonic() - began_s)
                self._changed.notify_all()

    def _wait_s(self, mine: _Waiting) -> float | None:
        """Return the longest wait before the next check; None without a limit, 0 if it is this script's turn."""
        now = time.monotonic()
        if min(self._waiting, key=lambda one: (self._had_s(one.visitor, now), one.number)) != mine:
            return None
        if not self._began:
            return 0.0
        return max(0.0, max(self._began.values()) + self._longest_s - now)

    def _had_s(self, visitor: str, now: float) -> float:
        had_s, at = self._had.get(visitor, (0.0, now))
        return float(had_s * 0.5 ** ((now - at) / FORGOTTEN_AFTER_S))

    def _charge(self, visitor: str, spent_s: float) -> None:
        """Count the time at most as long as the lock was held: a script that waits for something else delays nobody."""
        now = time.monotonic()
        self._had = {name: had for name, had in self._had.items() if now - had[1] < 10 * FORGOTTEN_AFTER_S}
        self._had[visitor] = (self._had_s(visitor, now) + min(spent_s, self._longest_s), now)


PAGES = ScriptLock()


def page_turn(visitor: str = "") -> AbstractContextManager[None]:
    """Return the lock of all pages, or a null context if the work-around is off."""
    return PAGES.hold(visitor) if workarounds.SCRIPT_LOCK in workarounds.enabled() else nullcontext()
