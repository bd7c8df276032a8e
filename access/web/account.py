"""How many bytes each visitor has in the page's memory: bodies that are read, answers that are sent, and uploads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lab.errors import BusyError

#: Two of the largest files; less where the page itself may have little.
MOST_EACH = 512 * 2**20


class Account:
    """Safe to use from any thread. `elsewhere`: what visitors have beside what is held here."""

    def __init__(self, most: int, elsewhere: Callable[[], Counter[str]], most_each: int = MOST_EACH) -> None:
        self._most, self._most_each = most, min(most_each, most // 2)
        self._elsewhere = elsewhere
        self._lock = threading.Lock()
        self._held = Counter[str]()

    @contextmanager
    def holding(self, visitor: str, count: int) -> Iterator[None]:
        """Count so many bytes as this visitor's during the block. Raises BusyError where there is no room."""
        self.hold(visitor, count)
        try:
            yield
        finally:
            self.let_go(visitor, count)

    def hold(self, visitor: str, count: int) -> None:
        """Count so many bytes until `let_go`. Raises BusyError where there is no room."""
        elsewhere = self._elsewhere()
        with self._lock:
            own = self._held[visitor] + elsewhere[visitor]
            if own + count > self._most_each:
                raise BusyError(
                    f"{own // 2**20} MiB of yours are in the page's memory, and {count / 2**20:.1f} more would be over "
                    f"{self._most_each // 2**20}: wait for what is under way, or remove files that you have uploaded"
                )
            if self._held.total() + elsewhere.total() + count > self._most:
                raise BusyError("the page has no memory left for this: try again in a moment")
            self._held[visitor] += count

    def let_go(self, visitor: str, count: int) -> None:
        with self._lock:
            self._held[visitor] -= count
            if not self._held[visitor]:
                del self._held[visitor]
