"""Who waits for the hash of a password, and for how long: visitors from elsewhere do not keep those who are known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from anyio import CapacityLimiter, to_thread

from lab.errors import AccessError

#: Visitors who wait for a hash, of one address and of all: each is a fraction of a second of a processor.
MOST_OF_ADDRESS, MOST_OF_ALL = 4, 20
_BUSY = "too many people are signing in at the moment: wait a moment, then try again"


class TooManyWaitError(AccessError):
    """The queue has no room for one more of this address, or of any."""


class Hashing:
    """For one event loop. Two queues with a thread each, so that neither takes the threads of those who read.

    Whoever shows a one-time link, or a name that came in from the same address before, waits in a queue that nobody
    else can fill.
    """

    def __init__(self) -> None:
        self._known, self._others = CapacityLimiter(1), CapacityLimiter(1)
        self._waiting = Counter[str]()

    async def at_once(self, hash_password: Callable[[], str]) -> str:
        """Run what computes a hash, for somebody who is known."""
        return await to_thread.run_sync(hash_password, limiter=self._known)

    async def in_turn(self, address: str, hash_password: Callable[[], str]) -> str:
        """Run what computes a hash, for anybody at this address. Raises TooManyWaitError."""
        if self._waiting[address] >= MOST_OF_ADDRESS or self._waiting.total() >= MOST_OF_ALL:
            raise TooManyWaitError(_BUSY)
        self._waiting[address] += 1
        try:
            return await to_thread.run_sync(hash_password, limiter=self._others)
        finally:
            self._waiting[address] -= 1
            self._waiting += Counter()  # leaves out who waits no more
