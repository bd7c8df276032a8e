"""A program of somebody else that takes a processor."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator

#: Its parent ends at once, so that it is nobody's child here; it ends by itself if nobody kills it.
_PROGRAM = """
import os, time
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
os.close(1)
until_s = time.monotonic() + 600
while time.monotonic() < until_s:
    pass
"""


@contextlib.contextmanager
def burner() -> Iterator[int]:
    """Run it; gives its number."""
    started = subprocess.run([sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, check=True)
    pid = int(started.stdout)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)
