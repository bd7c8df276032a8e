"""Whether this host has the memory for more engines beside those that are up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import psutil

from lab.errors import UserError
from workers.engine_runtime.process import EngineProcess, NoProcess, marked


def refuse_without_room(engines: Iterable[EngineProcess | NoProcess], more: int = 1, least_bytes: int = 0) -> None:
    """Raise UserError if less memory is available than so many more engines take, each as much as the largest of these,
    or `least_bytes`.
    """
    each = max(largest_bytes(engines), least_bytes)
    available = psutil.virtual_memory().available
    if available < each * more:
        wanted = "one more engine" if more == 1 else f"{more} more engines"
        raise UserError(
            f"this host has {available / 2**30:.1f} GiB of memory left for {wanted} of this study, and each takes "
            f'{each / 2**30:.1f} GiB: use order = "interleaved", which has one engine up at a time'
        )


def largest_bytes(engines: Iterable[EngineProcess | NoProcess]) -> int:
    """Return the memory of the largest of these engines; 0 without any."""
    return max((memory_bytes(engine) for engine in engines if isinstance(engine, EngineProcess)), default=0)


def memory_bytes(engine: EngineProcess) -> int:
    """Return what the processes of an engine have in memory, pages that they share counted once."""
    total = 0
    for process in marked(engine.mark_file.stem):
        with contextlib.suppress(psutil.Error):
            used = process.memory_full_info()
            total += int(getattr(used, "pss", used.rss))
    return total
