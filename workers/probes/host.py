"""Processors and memory of the host of the measuring client (and of an engine that was started here)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psutil


@dataclass(frozen=True)
class HostReading:
    """`cpu_percent` covers all processors; None if no time has passed since the last reading."""

    cpu_percent: float | None
    memory_used_bytes: int  # total less what is available without swapping


class Host:
    """Computes the load since its last reading, or since its creation."""

    def __init__(self) -> None:
        self._before = busy_and_all_s(psutil.cpu_times())

    def read(self) -> HostReading:
        before, self._before = self._before, busy_and_all_s(psutil.cpu_times())
        busy_s, all_s = (now - then for now, then in zip(self._before, before, strict=True))
        memory = psutil.virtual_memory()
        return HostReading(100 * busy_s / all_s if all_s > 0 else None, memory.total - memory.available)


def busy_and_all_s(times: Any) -> tuple[float, float]:
    """Return the seconds that the processors worked, and all their seconds.

    Linux counts a guest's time as user time already; waiting for a disk is not work.
    """
    spent: dict[str, float] = times._asdict()
    all_s = sum(spent.values()) - spent.get("guest", 0.0) - spent.get("guest_nice", 0.0)
    return all_s - spent["idle"] - spent.get("iowait", 0.0), all_s
