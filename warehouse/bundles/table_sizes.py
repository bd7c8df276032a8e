"""Measures tables from strangers, in a process of its own that may take no more memory than this one can spare.

The sizes stated in a file need not be true, and one page of it can take gigabytes: only reading shows that.
Program: `python -m warehouse.bundles.table_sizes PARENT MOST_BYTES`, with a path on each line of its input.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.errors import BundleError
from warehouse.bundles.record_file import refuse_bomb
from warehouse.sandbox.limits import end_with, limit_memory, limit_time

#: The most that a table of an imported run may take in memory; the ingester needs about three times as much.
MAX_TABLE_BYTES = 512 * 2**20

#: The memory that the process may add to what it has at its start; and how long it may compute and wait.
MEMORY_MIB, _TIMEOUT_S = 1024, 300.0
_REFUSED = 3
#: Arrow's own allocator and the C library's pools for threads reserve addresses, which count for the limit.
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "ARROW_DEFAULT_MEMORY_POOL": "system"}
_ENVIRONMENT |= {"MALLOC_ARENA_MAX": "1"}


def table_sizes(paths: Sequence[Path], most_bytes: int) -> Iterator[int]:
    """Yield the size of each file's rows in memory. Raises BundleError if a table is larger than `most_bytes`, not
    readable, or larger than the process that reads it may become.
    """
    command = [sys.executable, "-m", "warehouse.bundles.table_sizes", str(os.getpid()), str(most_bytes)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
        env=_ENVIRONMENT,
        text=True,
    ) as child:
        assert child.stdin is not None  # noqa: S101 - tells mypy
        assert child.stdout is not None  # noqa: S101 - tells mypy too
        try:
            for path in paths:
                child.stdin.write(f"{path.absolute()}\n")
                child.stdin.flush()
                reply = child.stdout.readline()
                if not reply.startswith("bytes "):
                    why = reply.removeprefix("refused ").strip()
                    raise BundleError(why or f"{path.name} takes more memory or time to read than is available")
                yield int(reply.removeprefix("bytes "))
        except BrokenPipeError:
            raise BundleError("its tables take longer to read than is allowed") from None
        finally:
            child.kill()


def main(parent: int, most_bytes: int) -> int:
    end_with(parent)
    limit_time(_TIMEOUT_S)
    limit_memory(MEMORY_MIB)
    for line in sys.stdin:
        try:
            print("bytes", refuse_bomb(Path(line.rstrip("\n")), most_bytes), flush=True)
        except BundleError as error:
            print("refused", str(error).splitlines()[0], flush=True)
            return _REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
