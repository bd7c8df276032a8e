"""The lag of the event loop: a client that is late itself measures its own delay."""

from __future__ import annotations

import asyncio
from array import array

import numpy as np

_INTERVAL_S = 0.02


class LoopLag:
    """Schedules a wake-up every 20 ms and records how late it came. The loop's own timer rounds up by as much as 1
    ms.
    """

    def __init__(self) -> None:
        self._lags_ms = array("d")
        self._seen = 0
        self._due_s = asyncio.get_running_loop().time()

    async def watch(self) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self._due_s = loop.time() + _INTERVAL_S
            await asyncio.sleep(_INTERVAL_S)
            self.note()

    def note(self) -> None:
        """Add one sample: how late we are for the scheduled wake-up, or 0 before it."""
        self._lags_ms.append(max(0.0, (asyncio.get_running_loop().time() - self._due_s) * 1000))

    def worst_since_last_ms(self) -> float:
        """Return the worst lag since the last call; 0.0 if no interval has passed."""
        fresh, self._seen = self._lags_ms[self._seen :], len(self._lags_ms)
        return max(fresh, default=0.0)

    def p99_ms(self) -> float:
        """Return the 99th percentile of all samples; there must be at least one."""
        return float(np.percentile(self._lags_ms, 99))

    def max_ms(self) -> float:
        return max(self._lags_ms)
