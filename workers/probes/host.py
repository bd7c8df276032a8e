"""The host of the measuring client (and of an engine that was started here): processors and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psutil


@dataclass(frozen=True)
class HostReading:
    """`cpu_percent` of all processors together; None where no time has passed since the reading before."""

    cpu_percent: float | None
    memory_used_bytes: int  # what could not be had without swapping


class Host:
    """Knows what the processors had done when it was read before, or made."""

    def __init__(self) -> None:
        self._before = busy_and_all_s(psutil.cpu_times())

    def read(self) -> HostReading:
        before, self._before = self._before, busy_and_all_s(psutil.cpu_times())
        busy_s, all_s = (now - then for now, then in zip(self._before, before, strict=True))
        memory = psutil.virtual_memory()
        return HostReading(100 * busy_s / all_s if all_s > 0 else None, memory.total - memory.available)


def busy_and_all_s(times: Any) -> tuple[float, float]:
    """Seconds that the processors worked, and all their seconds. A guest's time is in the user's already (Linux), and
    waiting for a disk is no work.
    """
    spent: dict[str, float] = times._asdict()
    all_s = sum(spent.values()) - spent.get("guest", 0.0) - spent.get("guest_nice", 0.0)
    return all_s - spent["idle"] - spent.get("iowait", 0.0), all_s
