"""Checks that this host has the memory for more engines beside those that are up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import psutil

from lab.errors import HostError, UserError
from workers.engine_runtime.process import EngineProcess, NoProcess, marked

#: Engines that start together leave this share of the host's memory to everything else.
_LEAST_FREE = 0.1
_POLL_EVERY_S = 0.1
_INSTEAD = 'use order = "interleaved", which has one engine up at a time'
_OR_END_OTHERS = ", or end the other programs that hold memory"
T = TypeVar("T")


def refuse_without_memory(engines: Sequence[EngineProcess | NoProcess], more: int = 1, least_bytes: int = 0) -> None:
    """Raise UserError if too little memory is available for this many more engines, each as large as the largest of
    these, or `least_bytes`; HostError if other programs hold what they need.
    """
    each = max(largest_bytes(engines), least_bytes)
    memory = psutil.virtual_memory()
    if memory.available < each * more:
        wanted = "one more engine" if more == 1 else f"{more} more engines"
        why = (
            f"this host has {memory.available / 2**30:.1f} GiB of memory left for {wanted} of this study, and each "
            f"takes {each / 2**30:.1f} GiB: {_INSTEAD}"
        )
        if each * (len(engines) + more) <= (1 - _LEAST_FREE) * memory.total:
            raise HostError(why + _OR_END_OTHERS)
        raise UserError(why)


async def while_memory_lasts(start: Coroutine[Any, Any, T]) -> T:
    """Wait for engines that start together, before any of them has shown how much memory it takes.

    Raises UserError as soon as less than a tenth of this host's memory is left, HostError if other programs held most
    of it before; the caller stops the engines.
    """
    before, starting = psutil.virtual_memory(), asyncio.ensure_future(start)
    try:
        while not (await asyncio.wait([starting], timeout=_POLL_EVERY_S))[0]:
            memory = psutil.virtual_memory()
            if memory.available < _LEAST_FREE * memory.total:
                why = (
                    f"this host has {memory.available / 2**30:.1f} GiB of {memory.total / 2**30:.1f} GiB of memory "
                    f"left while the engines of this study start together: {_INSTEAD}"
                )
                if before.available < before.total / 2:
                    raise HostError(why + _OR_END_OTHERS)
                raise UserError(why)
        return await starting
    finally:
        starting.cancel()


def largest_bytes(engines: Iterable[EngineProcess | NoProcess]) -> int:
    """Return the memory of the largest of these engines; 0 without any."""
    return max((memory_bytes(engine) for engine in engines if isinstance(engine, EngineProcess)), default=0)


def memory_bytes(engine: EngineProcess) -> int:
    """Return the resident memory of an engine's processes, shared pages counted once."""
    total = 0
    for process in marked(engine.mark_file.stem):
        with contextlib.suppress(psutil.Error):
            used = process.memory_full_info()
            total += int(getattr(used, "pss", used.rss))
    return total
