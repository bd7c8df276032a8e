"""How fast one visitor may ask: who asks faster waits, and who asks much faster is refused, so that others do not wait.

What a browser loads for a page is not counted; programs, uploads, passwords and links are. Pages that are opened, and
what is done on them, have a pace of their own; and a visitor has so many open at once.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Requests a second in the long run, so many at once before that, and the longest wait before a refusal.
RATE_PER_S, BURST, LONGEST_WAIT_S = 20.0, 200.0, 5.0
#: The same for pages, each of which runs a script; a part that renews itself counts as a fraction of one.
PAGES_PER_S, PAGES_BURST, PART_OF_PAGE = 2.0, 20.0, 0.1
#: The same for passwords from one address, each of which takes a fifth of a second of a processor.
PASSWORDS_PER_S, PASSWORDS_BURST = 1.0, 20.0
#: The same for ranges of the warehouse's file, of which DuckDB asks for many small ones.
RANGES_PER_S, RANGES_BURST = 100.0, 1000.0
#: A body counts as one request more for each so many bytes, up to the longest of JSON.
BODY_BYTES, LONGEST_COUNTED = 20_000, 200_000
#: Requests of one visitor that are answered at once: a browser behind HTTP/2 loads a page by a hundred.
MOST_AT_ONCE = 200
#: Open pages (websockets) of one visitor, and of all.
MOST_OPEN, MOST_OPEN_OF_ALL = 30, 500
COUNTED = ("/api/", "/login", "/shared/", "/_stcore/upload_file/")
_MOST_REMEMBERED = 10_000


class Pace:
    """For one event loop. Each visitor is known by a name or an address."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, rate_per_s: float = RATE_PER_S, burst: float = BURST
    ) -> None:
        self._clock, self._rate_per_s, self._burst = clock, rate_per_s, burst
        self._free_at: dict[str, float] = {}  # when a visitor's requests so far are worked off at the rate

    def wait_s(self, visitor: str, counts: float = 1.0) -> float | None:
        """How long this request has to wait; None if it is refused, which costs the visitor nothing. It `counts` as so
        many.
        """
        now = self._clock()
        free_at = max(now, self._free_at.get(visitor, now)) + counts / self._rate_per_s
        wait_s = free_at - now - self._burst / self._rate_per_s
        if wait_s > LONGEST_WAIT_S:
            return None
        if len(self._free_at) >= _MOST_REMEMBERED:
            busiest = sorted(self._free_at.items(), key=lambda one: one[1])[_MOST_REMEMBERED // 2 :]
            self._free_at = {name: until for name, until in busiest if until > now}
        self._free_at[visitor] = free_at
        return max(0.0, wait_s)


class AtOnce:
    """For one event loop: how many of something each visitor has at once."""

    def __init__(self) -> None:
        self._open = Counter[str]()

    def count(self, visitor: str) -> int:
        return self._open[visitor]

    @contextmanager
    def one_more(self, visitor: str) -> Iterator[None]:
        self._open[visitor] += 1
        try:
            yield
        finally:
            self._open[visitor] -= 1
            if not self._open[visitor]:
                del self._open[visitor]


class OpenPages(AtOnce):
    """How many pages each visitor has open."""

    def why_none(self, visitor: str) -> str | None:
        """Why this visitor may open no more; None if they may."""
        if self._open[visitor] >= MOST_OPEN:
            return f"You have {self._open[visitor]} pages of this lab open: close some, then load this one again."
        if self._open.total() >= MOST_OPEN_OF_ALL:
            return f"{self._open.total()} pages of this lab are open: try again in a while."
        return None
