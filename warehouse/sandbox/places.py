"""Places for SQL: how many questions run at once on this machine's behalf, and how many of them are one visitor's."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from lab.errors import QueryError

#: Each question is a process that may use a whole core and `sql_memory_mib`.
MOST = max(2, os.cpu_count() or 2)
MOST_EACH = max(1, MOST // 2)


class Places:
    """Safe to use from any thread. Nobody can take all, and who waits for their own does not keep others waiting."""

    def __init__(self, most: int = MOST, most_each: int = MOST_EACH) -> None:
        self._most, self._most_each = most, most_each
        self._changed = threading.Condition()
        self._taken = Counter[str]()

    @contextmanager
    def taken(self, visitor: str, timeout_s: float) -> Iterator[None]:
        """Hold a place, after waiting for one. Raises QueryError if none is free in time."""
        until = time.monotonic() + timeout_s
        with self._changed:
            while (reason := self._why_none(visitor)) is not None:
                if not self._changed.wait(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                    raise QueryError(f"{reason}: try again in a moment")
            self._taken[visitor] += 1
        try:
            yield
        finally:
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
