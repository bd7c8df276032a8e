"""Scripts of several visitors one after the other.

They share one interpreter: run side by side, all of them end when the last one does; one after the other, half of the
visitors have their page in half that time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: A page that takes longer most likely waits for something else than the interpreter: the next one begins beside it.
LONGEST_TURN_S = 0.5


class Turns:
    """Of one server; safe to use from any thread."""

    def __init__(self, longest_s: float = LONGEST_TURN_S) -> None:
        self._longest_s = longest_s
        self._changed = threading.Condition()
        self._began: dict[object, float] = {}  # each turn that has not ended, by the monotonic clock
        self._waiting = 0

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until it is the caller's, and hand it on at the end, however that comes."""
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

    def linger(self, longest_s: float) -> None:
        """Of the one who has the turn: do nothing for so long, but only while nobody waits for it."""
        until = time.monotonic() + longest_s
        with self._changed:
            while not self._waiting and (left_s := until - time.monotonic()) > 0:
                self._changed.wait(left_s)

    def _wait_s(self) -> float:
        """How long the one who has the turn may still keep it."""
        if not self._began:
            return 0.0
        return max(self._began.values()) + self._longest_s - time.monotonic()


PAGES = Turns()
