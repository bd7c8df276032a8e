"""A process of the lab that wants more than its share of the memory fails alone."""

from __future__ import annotations

import subprocess
import sys

_TRIES = """
import sys
from pathlib import Path
from warehouse.process_memory import limit_memory

limit_memory(600)
print(Path("/proc/self/oom_score_adj").read_text().strip())
try:
    bytearray(700 * 2**20)
except MemoryError:
    print("refused")
"""


def test_more_than_the_limit_is_refused_and_the_kernel_ends_this_process_first() -> None:
    done = subprocess.run([sys.executable, "-c", _TRIES], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["500", "refused"]
