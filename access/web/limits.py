"""Limits on one visitor's requests, open pages, memory and password hashes, so that others do not wait.

A visitor above the pace waits, and one far above it is refused. What a browser loads for a page is not
counted; programs, uploads, passwords and links are.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from anyio import CapacityLimiter, to_thread

from lab.errors import AccessError, BusyError

#: Sustained requests per second, the burst allowed beyond that, and the longest wait before a refusal.
RATE_PER_S, BURST, LONGEST_WAIT_S = 20.0, 200.0, 5.0
#: The same for pages, each of which runs a script; a part that renews itself counts as a fraction of one.
PAGES_PER_S, PAGES_BURST, PART_OF_PAGE = 2.0, 20.0, 0.1
#: The same for passwords from one address, each of which takes 0.2 s of a processor.
PASSWORDS_PER_S, PASSWORDS_BURST = 1.0, 20.0
#: The same for ranges of the warehouse's file, which DuckDB reads in many small pieces.
RANGES_PER_S, RANGES_BURST = 100.0, 1000.0
#: A body counts as one more request per this many bytes, up to the longest JSON body.
BODY_BYTES, LONGEST_COUNTED = 20_000, 200_000
#: Requests of one visitor that are answered at once: a browser over HTTP/2 loads a page with a hundred.
MOST_AT_ONCE = 200
#: Open pages (websockets) of one visitor, and of all.
MOST_OPEN, MOST_OPEN_OF_ALL = 30, 500
COUNTED = ("/api/", "/login", "/shared/", "/_stcore/upload_file/")
_MOST_REMEMBERED = 10_000
#: Bytes of one visitor in the page's memory: two of the largest files; less where the page itself has little memory.
MOST_EACH = 512 * 2**20
#: Visitors who wait for a password's hash, of one address and of all: each hash takes a fraction of a second.
MOST_OF_ADDRESS, MOST_OF_ALL = 4, 20
_BUSY = "too many people are signing in at the moment: wait a moment, then try again"


class Pace:
    """The pace of requests, for one event loop. Visitors are keyed by a name or an address."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, rate_per_s: float = RATE_PER_S, burst: float = BURST
    ) -> None:
        self._clock, self._rate_per_s, self._burst = clock, rate_per_s, burst
        self._free_at: dict[str, float] = {}  # when a visitor's requests so far are worked off at the rate

    def wait_s(self, visitor: str, counts: float = 1.0) -> float | None:
        """Return how long this request must wait; None if it is refused, at no cost to the visitor. It `counts` as this
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
    """A limit on how many of something each visitor has at once, for one event loop."""

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
    """A limit on each visitor's open pages."""

    def why_none(self, visitor: str) -> str | None:
        """Return why this visitor may open no more pages; None if they may."""
        if self._open[visitor] >= MOST_OPEN:
            return f"You have {self._open[visitor]} pages of this lab open: close some, then load this one again."
        if self._open.total() >= MOST_OPEN_OF_ALL:
            return f"{self._open.total()} pages of this lab are open: try again in a while."
        return None


class HeldBytes:
    """A limit on each visitor's bytes in the page's memory: request bodies, responses and uploads.

    Safe to use from any thread. `elsewhere` counts the visitors' bytes that are not held here.
    """

    def __init__(self, most: int, elsewhere: Callable[[], Counter[str]], most_each: int = MOST_EACH) -> None:
        self._most, self._most_each = most, min(most_each, most // 2)
        self._elsewhere = elsewhere
        self._lock = threading.Lock()
        self._held = Counter[str]()

    @contextmanager
    def holding(self, visitor: str, count: int) -> Iterator[None]:
        """Count this number of bytes as this visitor's during the block. Raises BusyError if there is no room."""
        self.hold(visitor, count)
        try:
            yield
        finally:
            self.let_go(visitor, count)

    def hold(self, visitor: str, count: int) -> None:
        """Count this number of bytes until `let_go`. Raises BusyError if there is no room."""
        elsewhere = self._elsewhere()
        with self._lock:
            own = self._held[visitor] + elsewhere[visitor]
            if own + count > self._most_each:
                raise BusyError(
                    f"you have {own // 2**20} MiB in the page's memory, and {count / 2**20:.1f} more would exceed "
                    f"{self._most_each // 2**20}: wait until other requests have ended, or remove files that you "
                    "have uploaded"
                )
            if self._held.total() + elsewhere.total() + count > self._most:
                raise BusyError("the page has no memory left for this: try again in a moment")
            self._held[visitor] += count

    def let_go(self, visitor: str, count: int) -> None:
        with self._lock:
            self._held[visitor] -= count
            if not self._held[visitor]:
                del self._held[visitor]


class TooManyWaitError(AccessError):
    """The queue has no room for another visitor from this address, or from any."""


class Hashing(AtOnce):
    """Queues for password hashes, for one event loop: two with a thread each, apart from the threads that serve pages.

    Visitors with a one-time link, or a name that signed in from the same address before, have a queue that nobody
    else can fill.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known, self._others = CapacityLimiter(1), CapacityLimiter(1)

    async def at_once(self, hash_password: Callable[[], str]) -> str:
        """Run a function that computes a hash, for a known visitor."""
        return await to_thread.run_sync(hash_password, limiter=self._known)

    async def in_turn(self, address: str, hash_password: Callable[[], str]) -> str:
        """Run a function that computes a hash, for a visitor whom no link or earlier sign-in identifies. Raises
        TooManyWaitError.
        """
        if self.count(address) >= MOST_OF_ADDRESS or self._open.total() >= MOST_OF_ALL:
            raise TooManyWaitError(_BUSY)
        with self.one_more(address):
            return await to_thread.run_sync(hash_password, limiter=self._others)
