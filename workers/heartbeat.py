"""A job's heartbeat: renews its lease, stores its progress, and learns when the job must stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

import sqlalchemy as sa

from jobs import blocks, leases
from jobs.leases import LeaseLost
from jobs.table import Job, Progress
from lab.errors import CancelledError, DrafthouseError
from workers.vital_thread import vital_thread

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: A cancelled job must end within 2 s: half a second to learn of it, half a second of grace for the engine.
_BEAT_EVERY_S = 0.5


class WorkerStops(DrafthouseError):  # noqa: N818 - an event like CancelledError, not a failure
    """This worker is shutting down; the job goes back to the queue."""


class Heartbeat:
    """Use as `with Heartbeat(...)`, and run everything that takes time through `run`."""

    def __init__(self, engine: sa.Engine, job: Job, worker: str, lease_s: float, *, helps: bool = False) -> None:
        """`helps`: the job is another worker's, and this one has a block of it."""
        self._progress: Callable[[], Progress | None] = lambda: None
        self._engine, self._job, self._worker, self._lease_s = engine, job, worker, lease_s
        self._job_id, self._helps = job.job_id, helps
        self._why_stop: DrafthouseError | None = None
        self._cancel: Callable[[], object] | None = None
        self._over = threading.Event()
        self._thread = vital_thread(f"heartbeat of {job.job_id}", self._beat)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def watch(self, progress: Callable[[], Progress]) -> None:
        """Send this progress with every beat from now on."""
        self._progress = progress

    def check(self) -> None:
        """Raise the reason why the job must stop, if any: CancelledError, LeaseLost or WorkerStops."""
        if self._why_stop is not None:
            raise self._why_stop

    def stop(self, why: DrafthouseError) -> None:
        """Make `run` and `check` raise `why`. May be called from any thread and from a signal handler."""
        self._why_stop = self._why_stop or why
        if (cancel := self._cancel) is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just ended
                cancel()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end; if the job must stop, cancel it and raise the reason."""
        return asyncio.run(self._run(work))

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)
        stopping = False

        def cancel_once() -> None:
            nonlocal stopping
            if not stopping:
                stopping = True
                task.cancel()

        self._cancel = lambda: loop.call_soon_threadsafe(cancel_once)
        if self._why_stop is not None:
            cancel_once()
        try:
            return await task
        except asyncio.CancelledError:
            self.check()
            raise
        finally:
            self._cancel = None

    def _send(self) -> bool:
        """Return False if the user asked to cancel. Raises LeaseLost."""
        if self._helps:
            return blocks.helping(self._engine, self._job, self._worker, self._lease_s)
        if self._job.study.spread:
            blocks.renew_blocks(self._engine, self._job, self._worker, self._lease_s)
        return leases.heartbeat(self._engine, self._job_id, self._worker, self._lease_s, self._progress())

    def _beat(self) -> None:
        """Beat until the job is over. Tolerates a database outage for one lease period."""
        held_until_s = time.monotonic() + self._lease_s
        while not self._over.wait(_BEAT_EVERY_S):
            sent_s = time.monotonic()
            try:
                wanted = self._send()
            except LeaseLost as lost:
                self.stop(lost)
                return
            except sa.exc.DBAPIError as error:
                logger.warning("heartbeat of %s failed, trying again: %s", self._job_id, error.orig)
                if sent_s > held_until_s:
                    self.stop(LeaseLost(f"the job table did not answer for {self._lease_s:g} s"))
                    return
                continue
            held_until_s = sent_s + self._lease_s
            if not wanted:
                self.stop(CancelledError(f"job {self._job_id} was cancelled"))
