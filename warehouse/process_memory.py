"""What a process of the lab may use of this machine's memory, so that none of them is a measurement's end.

Engines and the workers that measure have no limit here: they are what the memory is for.
"""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

#: Of a process without a limit of its own: this share of the machine's memory, and at least so much.
_SHARE, _LEAST_BYTES = 0.5, 2 * 2**30
#: The kernel ends the process with the highest score first when memory runs out; engines have 0.
_OOM_SCORE = 500


def limit_memory(limit_mib: int | None) -> None:
    """Let this process fail beyond `limit_mib` (None: half of the machine's memory) and be ended before others."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    most = max(_LEAST_BYTES, int(machine * _SHARE)) if limit_mib is None else limit_mib * 2**20
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    with contextlib.suppress(OSError):  # not on every system
        Path("/proc/self/oom_score_adj").write_text(str(_OOM_SCORE), encoding="ascii")
