"""Whether this host has the memory for one more engine beside those that are up."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import psutil

from lab.errors import UserError
from workers.engine_runtime.process import EngineProcess, NoProcess, marked


def refuse_without_room(engines: Iterable[EngineProcess | NoProcess]) -> None:
    """Raise UserError if less memory is available than the largest of these engines takes: the next takes as much."""
    largest = max((memory_bytes(engine) for engine in engines if isinstance(engine, EngineProcess)), default=0)
    available = psutil.virtual_memory().available
    if available < largest:
        raise UserError(
            f"this host has {available / 2**30:.1f} GiB of memory left, and an engine of this study takes "
            f'{largest / 2**30:.1f} GiB: use order = "interleaved", which has one engine up at a time'
        )


def memory_bytes(engine: EngineProcess) -> int:
    """Return what the processes of an engine have in memory, pages that they share counted once."""
    total = 0
    for process in marked(engine.mark_file.stem):
        with contextlib.suppress(psutil.Error):
            used = process.memory_full_info()
            total += int(getattr(used, "pss", used.rss))
    return total
