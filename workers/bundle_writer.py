"""Writes a run's bundle while the next run warms up, so that the engine does not wait for a disk."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

from lab.errors import UserError
from lab.metrics.records import RunRecord
from warehouse.bundles.run_bundle import write_bundle
from workers.run_measurement import Measured


class BundleWriter:
    """One bundle at a time; a write that failed is raised as UserError by whatever is called next."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._pool = ThreadPoolExecutor(1, "bundle writer")
        self._last: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def write(self, run: RunRecord, measured: Measured | None, log: Path | None, written: Callable[[], None]) -> None:
        """Begin to write; the log is copied as it is by then. `written` is called once the bundle is on disk."""
        self.wait()
        requests, telemetry = (measured.requests, measured.telemetry) if measured else ((), ())
        there = log if log is not None and log.exists() else None

        def write() -> None:
            write_bundle(self._root, run, requests, telemetry, there)
            written()

        self._last = self._pool.submit(write)

    def wait(self) -> None:
        """Until the last bundle is on disk. Raises UserError."""
        if (last := self._last) is not None:
            self._last = None
            try:
                last.result()
            except OSError as error:
                raise UserError(disk_sentence(self._root, error)) from error

    async def settled(self) -> None:
        """The same, for the event loop."""
        await asyncio.to_thread(self.wait)


def disk_sentence(folder: Path, error: OSError) -> str:
    """What the user can do about a disk that did not take what we wrote."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {folder.absolute()} is full: free some space, then retry the job"
    return f"{error.filename or folder.absolute()} cannot be written ({error.strerror}): mend that, then retry the job"
