"""Limits of the operating system that a process sets for itself before it runs what is not trusted.

They are set both soft and hard, so that they cannot be lifted again.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import resource
import signal
import sys
from pathlib import Path

#: The parent kills after timeout_s; these limits act later, in case the parent is gone.
_GRACE_S = 2
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


def end_with(parent: int) -> None:
    """On Linux, be killed when the process with the id `parent`, which started this one, ends."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        with contextlib.suppress(OSError):  # if memory runs out, this process is killed before the page server
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if os.getppid() != parent:  # it ended before this line
        sys.exit(1)


def limit_time(timeout_s: float) -> None:
    """Let the system end the process after this elapsed or processor time, without any code of ours running."""
    seconds = math.ceil(timeout_s) + _GRACE_S
    set_limit(resource.RLIMIT_CPU, seconds)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)


def limit_memory(memory_mib: int) -> None:
    """Limit the address space to the present use plus `memory_mib`."""
    taken_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    set_limit(resource.RLIMIT_AS, taken_pages * resource.getpagesize() + memory_mib * 2**20)


def forbid_opening(excluding: int = 0) -> None:
    """Forbid new files (but for `excluding` of them), sockets and processes, writing to files, and core dumps.

    Open files and pipes keep working.
    """
    last = max(int(entry.name) for entry in Path("/dev/fd").iterdir()) if excluding else -1
    set_limit(resource.RLIMIT_NOFILE, last + 1 + excluding)
    for kind in (resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
        set_limit(kind, 0)


def set_limit(kind: int, most: int) -> None:
    """Set a limit of the module `resource` for good."""
    resource.setrlimit(kind, (most, most))
