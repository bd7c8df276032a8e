"""Places for SQL: how many questions run at once on this machine's behalf, and how many of them are one visitor's."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from lab.errors import BusyError

#: Each question is a process that may use a whole core and `sql_memory_mib`.
MOST = max(2, os.cpu_count() or 2)
MOST_EACH = max(1, MOST // 2)
#: Of one visitor's questions, so many wait for their place; one more is refused at once.
MOST_WAITING_EACH = 2
_LOOK_EVERY_S = 0.05


class Places:
    """Safe to use from any thread. Nobody can take all, and who waits for their own does not keep others waiting."""

    def __init__(
        self, most: int = MOST, most_each: int = MOST_EACH, most_waiting_each: int = MOST_WAITING_EACH
    ) -> None:
        self._most, self._most_each, self._most_waiting_each = most, most_each, most_waiting_each
        self._changed = threading.Condition()
        self._taken, self._waiting = Counter[str](), Counter[str]()

    @contextmanager
    def taken(self, visitor: str, timeout_s: float) -> Iterator[None]:
        """Hold a place, after waiting for one. Raises BusyError if none is free in time, or too many wait already."""
        until = time.monotonic() + timeout_s
        with self._changed, self._in_line(visitor):
            while (reason := self._take(visitor)) is not None:
                if not self._changed.wait(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                    raise BusyError(f"{reason}: try again in a moment")
        try:
            yield
        finally:
            self._give_back(visitor)

    @asynccontextmanager
    async def taken_without_thread(self, visitor: str, timeout_s: float) -> AsyncIterator[None]:
        """The same for an event loop: who waits holds no thread."""
        until = time.monotonic() + timeout_s
        with self._in_line(visitor):
            while (reason := self._take(visitor)) is not None:
                if time.monotonic() >= until:
                    raise BusyError(f"{reason}: try again in a moment")
                await asyncio.sleep(_LOOK_EVERY_S)
        try:
            yield
        finally:
            self._give_back(visitor)

    @contextmanager
    def _in_line(self, visitor: str) -> Iterator[None]:
        with self._changed:
            reason, waiting = self._why_none(visitor), self._waiting[visitor]
            if reason is not None and waiting >= self._most_waiting_each:
                raise BusyError(f"{reason}, and {waiting} more of yours wait: try again when one has its answer")
            self._waiting[visitor] += 1
        try:
            yield
        finally:
            with self._changed:
                self._waiting[visitor] -= 1
                if not self._waiting[visitor]:
                    del self._waiting[visitor]

    def _take(self, visitor: str) -> str | None:
        """Take a place; or why there is none."""
        with self._changed:
            if (reason := self._why_none(visitor)) is None:
                self._taken[visitor] += 1
            return reason

    def _give_back(self, visitor: str) -> None:
        with self._changed:
            self._taken[visitor] -= 1
            if not self._taken[visitor]:
                del self._taken[visitor]
            self._changed.notify_all()

    def _why_none(self, visitor: str) -> str | None:
        if (own := self._taken[visitor]) >= self._most_each:
            return f"{own} of your own queries {'is' if own == 1 else 'are'} running"
        if (all_of_them := self._taken.total()) >= self._most:
            return f"{all_of_them} other queries are running"
        return None


#: Of this process: the page's and the API's.
PLACES = Places()
