"""The lowest priority, for work that may run beside a measurement."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import sys
import threading
from pathlib import Path

_LOWEST = 19
_SYS_IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
_IOPRIO_WHO_PROCESS, _IOPRIO_IDLE = 1, 3 << 13


def take_lowest_priority() -> None:
    """Give this thread, and those that it starts, the lowest priority for processors and disks; it cannot be undone."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _LOWEST)
    if (number := _SYS_IOPRIO_SET.get(platform.machine())) is not None:
        ctypes.CDLL(None).syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE)


def lower_own_session() -> None:
    """Do the same for a process in its own session, whose threads Linux may schedule as a group (autogroup)."""
    take_lowest_priority()
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_LOWEST), encoding="ascii")
