"""Runs the scripts of several visitors one after the other.

The work-around `script_lock` halves the wait of half of the visitors who come at once: scripts share one interpreter,
so those that run side by side all end when the last one does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from webapp.server import workarounds

#: A script that holds the lock for longer most likely waits for something else than the interpreter.
LONGEST_HOLD_S = 0.5


class ScriptLock:
    """A lock that the next script gets anyway after `longest_s`; safe to use from any thread."""

    def __init__(self, longest_s: float = LONGEST_HOLD_S) -> None:
        self._longest_s = longest_s
        self._changed = threading.Condition()
        self._began: dict[object, float] = {}  # each script that has not ended, by the monotonic clock
        self._waiting = 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Wait for the lock, hold it during the block and release it at the end, also after an error."""
        mine = object()
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            while (wait_s := self._wait_s()) > 0:
                self._changed.wait(wait_s)
            self._waiting -= 1
            self._began[mine] = time.monotonic()
        try:
            yield
        finally:
            with self._changed:
                del self._began[mine]
                self._changed.notify_all()

    def yield_for(self, longest_s: float) -> None:
        """Hold the lock idle for up to `longest_s`; return early if another script waits."""
        until = time.monotonic() + longest_s
        with self._changed:
            while not self._waiting and (left_s := until - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def _wait_s(self) -> float:
        """How long the newest holder may still keep the lock."""
        if not self._began:
            return 0.0
        return max(self._began.values()) + self._longest_s - time.monotonic()


PAGES = ScriptLock()


def page_turn() -> AbstractContextManager[None]:
    """The lock of all pages, or nothing where the work-around is off."""
    return PAGES.hold() if workarounds.SCRIPT_LOCK in workarounds.enabled() else nullcontext()
