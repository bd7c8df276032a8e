"""What the operating system holds a process to that runs a user's SQL, whatever DuckDB allows.

Each wall stands by itself: should DuckDB read a file or grow past its limit, the system refuses. A limit is set for
good (soft and hard): the process itself cannot lift it.
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

#: How a refused open() reads in DuckDB's words once `open_nothing_more` was called.
NOTHING_OPENS = os.strerror(24)  # EMFILE
#: Address space beside the user's memory: stacks and pools that are reserved, not used, and the answer on its way out.
_ROOM_MIB = 256
#: The other side kills after timeout_s; these come later, for when there is no other side any more.
_GRACE_S = 2
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38


def end_with(parent: int) -> None:
    """Be killed when the process (on Linux) is that asked for this; `parent` is its id."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        with contextlib.suppress(OSError):  # where memory runs out, this one is killed before the pages are
            Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if os.getppid() != parent:  # it ended before this was reached
        sys.exit(1)


def limit_time(timeout_s: float) -> None:
    """Signals that end the process, by the clock and by the processor, sent by the system: no code of ours need run."""
    seconds = math.ceil(timeout_s) + _GRACE_S
    _limit(resource.RLIMIT_CPU, seconds)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(seconds)


def limit_memory(memory_mib: int) -> None:
    """This much more than what is taken now."""
    taken_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    _limit(resource.RLIMIT_AS, taken_pages * resource.getpagesize() + (memory_mib + _ROOM_MIB) * 2**20)


def open_nothing_more() -> None:
    """No file, socket or process more; what is open stays open. Nothing is written but to pipes, no core is dumped."""
    for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):
        _limit(kind, 0)


def _limit(kind: int, most: int) -> None:
    resource.setrlimit(kind, (most, most))
