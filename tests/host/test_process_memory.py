"""A process of the lab that wants more than its share of the memory ends alone, and before others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from host.process_memory import EXIT_STATUS

_TRIES = """
import time
from pathlib import Path
from host.process_memory import limit_memory

limit_memory(200, measures={measures})
print(Path("/proc/self/oom_score_adj").read_text().strip(), flush=True)
kept = [bytes(2**20) for _ in range(100)]
time.sleep(1)
print("goes on", flush=True)
kept += [b"x" * 2**20 for _ in range(200)]
time.sleep(150)
print("was never ended")
"""


@pytest.mark.parametrize("measures", [False, True])
def test_the_limit_ends_the_process_and_the_kernel_spares_measurements(*, measures: bool) -> None:
    program, before = _TRIES.format(measures=measures), Path("/proc/self/oom_score_adj").read_text().strip()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stdout.splitlines()) == (EXIT_STATUS, [before if measures else "500", "goes on"])
    assert "and its limit is 200: it ends" in done.stderr


_SPARES = """
from host.process_memory import do_without_pandas
do_without_pandas()
import pyarrow
print(pyarrow.array([1, 2.5]).to_pylist())
import pandas
"""


def test_arrow_works_in_a_process_that_does_without_pandas() -> None:
    done = subprocess.run([sys.executable, "-c", _SPARES], capture_output=True, text=True, check=False, timeout=600)
    assert done.stdout == "[1.0, 2.5]\n"
    assert done.stderr.endswith("ModuleNotFoundError: this process must not import pandas\n")


_IMPORTS = """
import cli.verbs.exchange.import_results
from host.process_memory import allocate_like_the_system
allocate_like_the_system()
import pyarrow
print(pyarrow.default_memory_pool().backend_name)
"""


def test_the_verb_import_lets_arrow_do_without_an_allocator() -> None:
    done = subprocess.run([sys.executable, "-c", _IMPORTS], capture_output=True, text=True, check=True, timeout=600)
    assert done.stdout == "system\n"
