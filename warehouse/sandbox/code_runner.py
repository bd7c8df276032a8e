"""Runs the code of answers against their tests, in confined processes of their own.

The process that does it (`warehouse.sandbox.code_child`) has an empty environment and folder and the lowest priority,
and ends with this one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

logger = logging.getLogger(__name__)
#: It imports from this installation and the standard library alone.
_CHILD = (
    "import sys; sys.path.insert(0, sys.argv[1]); from host import priority; priority.lower_own_session(); "
    "from warehouse.own_output import own_output; output = own_output(); "
    "from warehouse.sandbox import code_child; sys.exit(code_child.main(int(sys.argv[2]), output))"
)
#: Texts are hashed the same way each time, so that the same answer does the same. Times are UTC without any file.
_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "TZ": "UTC0", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
#: One program has at most half a minute there, and the first one waits for imports and for programs of our own.
_PATIENCE_S = 120.0
_MOST_BYTES_OF_SCORE = 64


async def scores_by_tests(programs: Sequence[tuple[str, str]], most_s: float) -> list[float | None]:
    """Return for each answer and its expected tests 1.0 if it passes, 0.0 if not, None if unknown.

    Returns None for all of them where processes cannot be confined, and for those that were not run after `most_s`.
    """
    found: list[float | None] = []
    if not programs or sys.platform != "linux":
        return [None] * len(programs)
    until_s = time.monotonic() + most_s
    async with _harness() as harness:
        for answer, expected in programs:
            if time.monotonic() > until_s:
                break
            try:
                found.append(await asyncio.wait_for(_score(harness, answer, expected), _PATIENCE_S))
            except (OSError, asyncio.IncompleteReadError) as error:  # it was killed, for want of memory perhaps
                logger.warning("tests of answers ended after %d of %d: %r", len(found), len(programs), error)
                break
    return found + [None] * (len(programs) - len(found))


async def _score(harness: asyncio.subprocess.Process, answer: str, expected: str) -> float | None:
    assert harness.stdin is not None  # noqa: S101 - tells mypy
    assert harness.stdout is not None  # noqa: S101 - likewise
    harness.stdin.write(json.dumps({"answer": answer, "expected": expected}).encode() + b"\n")
    await harness.stdin.drain()
    score: float | None = json.loads(await harness.stdout.readuntil())
    return score


@contextlib.asynccontextmanager
async def _harness() -> AsyncIterator[asyncio.subprocess.Process]:
    """Yield the process; afterwards it has ended, with whatever it was running."""
    with tempfile.TemporaryDirectory(prefix="unit-tests-") as empty:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-s", "-S", "-P", "-c", _CHILD, str(Path(__file__).parents[2]), str(os.getpid())),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=empty,
            env=_ENVIRONMENT,
            start_new_session=True,
            limit=_MOST_BYTES_OF_SCORE,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
