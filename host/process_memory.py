"""Memory limits of the lab's processes, so that none of them ends a measurement. Engines have no limit here."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import sys
import threading
import time
from pathlib import Path

#: The memory limit of a process that has none: this share of the machine's memory, but at least this much.
_SHARE, _LEAST_BYTES = 0.5, 2 * 2**30
#: The kernel ends the process with the highest score first when memory runs out; engines have 0.
_OOM_SCORE = 500
_POLL_EVERY_S = 0.5
_RESIDENT = Path("/proc/self/statm")
#: A read of fewer bytes leaves too little behind to be worth a collection.
WORTH_GIVING_BACK_BYTES = 2**20
#: "Internal software error" of sysexits.h: the supervisor restarts the process.
EXIT_STATUS = 70
_log = logging.getLogger("drafthouse")


def limit_memory(limit_mib: int | None, *, measures: bool = False) -> None:
    """End this process when it has more than `limit_mib` in memory (None: half of the machine's); and unless it
    `measures`, the kernel ends it before others.

    A thread watches resident memory. The system's own limit would count what libraries merely reserve: ten times that.
    """
    most, page_bytes = limit_bytes(limit_mib), os.sysconf("SC_PAGE_SIZE")
    if not measures:
        with contextlib.suppress(OSError):  # not on every system
            Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE), encoding="ascii")
    if not _RESIDENT.exists():  # not Linux
        return
    threading.Thread(target=_watch, args=(most, page_bytes), name="memory", daemon=True).start()


def limit_bytes(limit_mib: int | None) -> int:
    """Return the limit that `limit_memory` sets, in bytes."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(_LEAST_BYTES, int(machine * _SHARE)) if limit_mib is None else limit_mib * 2**20


def do_without_pandas() -> None:
    """Prevent the import of pandas, which takes time and memory, in a process without data frames.

    PyArrow would import it at its first conversion of Python values, which may be within a measured window.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas)


def allocate_like_the_system() -> None:
    """Make Arrow use the system's allocator, because its own give back less. Call it before Arrow is imported.

    `pyarrow.set_memory_pool` applies to Python's allocations, not to Arrow's own computations.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


class _WithoutPandas:
    """Finds no module named pandas, though it is installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError("this process must not import pandas", name=name)


def _watch(most_bytes: int, page_bytes: int) -> None:
    while (resident := int(_RESIDENT.read_text(encoding="ascii").split()[1]) * page_bytes) <= most_bytes:
        time.sleep(_POLL_EVERY_S)
    mib = 2**20
    _log.critical("this process has %d MiB in memory, and its limit is %d: it ends", resident // mib, most_bytes // mib)
    os._exit(EXIT_STATUS)


def give_back_memory() -> None:
    """Return freed memory, and that of reference cycles, from the allocators to the system."""
    gc.collect()
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
        if trim is not None:
            trim(0)
