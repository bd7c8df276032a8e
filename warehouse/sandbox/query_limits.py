"""Limits on concurrent SQL queries, on this machine and of one visitor."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from lab.errors import BusyError

#: Each query is a process that may use a whole core and `sql_memory_mib`.
MOST = max(2, os.cpu_count() or 2)
MOST_EACH = max(1, MOST // 2)
#: The most queries of one visitor that wait; one more is refused at once.
MOST_WAITING_EACH = 2
_POLL_INTERVAL_S = 0.05


class QueryLimits:
    """Limits on concurrent queries. No visitor can use them all, or delay others. Safe to use from any thread."""

    def __init__(
        self, most: int = MOST, most_each: int = MOST_EACH, most_waiting_each: int = MOST_WAITING_EACH
    ) -> None:
        self._most, self._most_each, self._most_waiting_each = most, most_each, most_waiting_each
        self._changed = threading.Condition()
        self._running, self._waiting = Counter[str](), Counter[str]()

    @contextmanager
    def running(self, visitor: str, timeout_s: float) -> Iterator[None]:
        """Wait until a query may run, and count it. Raises BusyError after the timeout, or if too many wait."""
        until = time.monotonic() + timeout_s
        with self._changed, self._waiting_in_line(visitor):
            while (reason := self._begin(visitor)) is not None:
                if not self._changed.wait(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                    raise BusyError(f"{reason}: try again in a moment")
        try:
            yield
        finally:
            self._end(visitor)

    @asynccontextmanager
    async def running_without_thread(self, visitor: str, timeout_s: float) -> AsyncIterator[None]:
        """Do the same in an event loop: a query that waits holds no thread."""
        until = time.monotonic() + timeout_s
        with self._waiting_in_line(visitor):
            while (reason := self._begin(visitor)) is not None:
                if time.monotonic() >= until:
                    raise BusyError(f"{reason}: try again in a moment")
                await asyncio.sleep(_POLL_INTERVAL_S)
        try:
            yield
        finally:
            self._end(visitor)

    @contextmanager
    def _waiting_in_line(self, visitor: str) -> Iterator[None]:
        with self._changed:
            reason, waiting = self._why_none(visitor), self._waiting[visitor]
            if reason is not None and waiting >= self._most_waiting_each:
                raise BusyError(
                    f"{reason}, and {waiting} more of your queries wait: try again when one of them is done"
                )
            self._waiting[visitor] += 1
        try:
            yield
        finally:
            with self._changed:
                self._waiting[visitor] -= 1
                if not self._waiting[visitor]:
                    del self._waiting[visitor]

    def _begin(self, visitor: str) -> str | None:
        """Count one more query, or return why it may not run."""
        with self._changed:
            if (reason := self._why_none(visitor)) is None:
                self._running[visitor] += 1
            return reason

    def _end(self, visitor: str) -> None:
        with self._changed:
            self._running[visitor] -= 1
            if not self._running[visitor]:
                del self._running[visitor]
            self._changed.notify_all()

    def _why_none(self, visitor: str) -> str | None:
        if (own := self._running[visitor]) >= self._most_each:
            return f"{own} of your own queries {'is' if own == 1 else 'are'} running"
        if (all_of_them := self._running.total()) >= self._most:
            return f"{all_of_them} other queries are running"
        return None


#: The limits of this process, for the page and the API.
QUERY_LIMITS = QueryLimits()
