"""How fast one visitor may ask: who asks faster waits, and who asks much faster is refused, so that others do not wait.

What a browser loads for a page is not counted; programs, uploads, passwords and links are.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: Requests a second in the long run, so many at once before that, and the longest wait before a refusal.
RATE_PER_S, BURST, LONGEST_WAIT_S = 20.0, 200.0, 5.0
COUNTED = ("/api/", "/login", "/shared/", "/_stcore/upload_file/")
_MOST_REMEMBERED = 10_000


class Pace:
    """For one event loop. Each visitor is known by a name or an address."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._free_at: dict[str, float] = {}  # when a visitor's requests so far are worked off at the rate

    def wait_s(self, visitor: str) -> float | None:
        """How long this request has to wait; None if it is refused, which costs the visitor nothing."""
        now = self._clock()
        free_at = max(now, self._free_at.get(visitor, now)) + 1 / RATE_PER_S
        wait_s = free_at - now - BURST / RATE_PER_S
        if wait_s > LONGEST_WAIT_S:
            return None
        if len(self._free_at) >= _MOST_REMEMBERED:
            self._free_at = {name: until for name, until in self._free_at.items() if until > now}
        self._free_at[visitor] = free_at
        return max(0.0, wait_s)
