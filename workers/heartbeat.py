"""A job's heartbeat: renews the lease, stores the progress, and stops the job when it must end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Self, TypeVar

import sqlalchemy as sa

from jobs.fleet import blocks, leases
from jobs.fleet.leases import LeaseLost
from jobs.table import Job, Progress
from lab.errors import CancelledError, DrafthouseError
from warehouse.app_db.engine import DATABASE_ERRORS, database_words

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: A cancelled job must end within 2 s: half a second to notice, half a second of grace for the engine.
_BEAT_EVERY_S = 0.5
_RETRY_AFTER_S = 0.5
#: EX_SOFTWARE of sysexits.h: an error of the program itself.
EXIT_STATUS = 70


class WorkerStops(DrafthouseError):  # noqa: N818 - an event like CancelledError, not a failure
    """This worker is shutting down; the job goes back to the queue."""


class HandsBack(DrafthouseError):  # noqa: N818 - likewise
    """This worker is needed for something else, or drains: between two blocks the job goes back to the queue."""


class Heartbeat:
    """The heartbeat of one job. Use as `with Heartbeat(...)`, and run everything that takes time through `run`."""

    def __init__(self, engine: sa.Engine, job: Job, worker: str, lease_s: float, *, helps: bool = False) -> None:
        """Begin the heartbeat. `helps`: the job is another worker's, and this one measures a block of it."""
        self._progress: Callable[[], Progress | None] = lambda: None
        self.database, self._job, self.worker, self._lease_s = engine, job, worker, lease_s
        self._job_id, self._helps = job.job_id, helps
        self._why_stop: DrafthouseError | None = None
        self._cancel: Callable[[], object] | None = None
        self._over, self._now = threading.Event(), threading.Event()
        self._held_until_s = 0.0  # time.monotonic
        self._threads = (
            vital_thread(f"heartbeat of {job.job_id}", self._beat),
            vital_thread(f"lease of {job.job_id}", self._end_with_the_lease),
        )

    def __enter__(self) -> Self:
        self._held_until_s = time.monotonic() + self._lease_s
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._now.set()
        for thread in self._threads:
            thread.join()

    def beat_now(self) -> None:
        """Look at once whether the job is to stop."""
        self._now.set()

    def watch(self, progress: Callable[[], Progress]) -> None:
        """Send this progress with every beat from now on."""
        self._progress = progress

    def check(self) -> None:
        """Raise the reason why the job must stop, if any: CancelledError, LeaseLost or WorkerStops."""
        if self._why_stop is not None:
            raise self._why_stop

    def holds_lease(self) -> bool:
        """Return whether no other worker can have the job, as far as this host's clock and the last beat say."""
        return time.monotonic() < self._held_until_s and not isinstance(self._why_stop, LeaseLost)

    def stop(self, why: DrafthouseError) -> None:
        """Make `run` and `check` raise `why`. May be called from any thread and from a signal handler."""
        self._why_stop = self._why_stop or why
        if (cancel := self._cancel) is not None:
            with contextlib.suppress(RuntimeError):  # the loop has just ended
                cancel()

    def query(self, read: Callable[[], T]) -> T:
        """Return the result of `read`. Retry while the database cannot be reached; raise the reason once the job must
        stop.
        """
        while True:
            self.check()
            try:
                return read()
            except DATABASE_ERRORS as error:
                logger.warning("job %s waits for the database: %s", self._job_id, database_words(error))
                time.sleep(_RETRY_AFTER_S)

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
            return blocks.helping(self.database, self._job, self.worker, self._lease_s)
        if self._job.study.spread:
            blocks.renew_blocks(self.database, self._job, self.worker, self._lease_s)
        return leases.heartbeat(self.database, self._job_id, self.worker, self._lease_s, self._progress())

    def _beat(self) -> None:
        """Beat until the job is over, or until it must stop."""
        while True:
            self._now.wait(_BEAT_EVERY_S)
            self._now.clear()
            if self._over.is_set():
                return
            sent_s = time.monotonic()
            try:
                wanted = self._send()
            except LeaseLost as lost:
                self.stop(lost)
                return
            except DATABASE_ERRORS as error:
                logger.warning("heartbeat of %s failed, trying again: %s", self._job_id, database_words(error))
                if isinstance(self._why_stop, LeaseLost):
                    return
                continue
            self._held_until_s = sent_s + self._lease_s
            if not wanted:
                self.stop(CancelledError(f"job {self._job_id} was cancelled"))

    def _end_with_the_lease(self) -> None:
        """Tolerate a database that cannot be reached for one lease period. This is a separate thread, because a beat
        may hang.
        """
        while (left_s := self._held_until_s - time.monotonic()) > 0:
            if self._over.wait(left_s):
                return
        self.stop(LeaseLost(f"the job table did not answer for {self._lease_s:g} s"))


def vital_thread(name: str, work: Callable[[], None]) -> threading.Thread:
    """Return a thread that ends the process, with the traceback in its log, if `work` fails.

    A worker without its heartbeat would lose its lease and measure beside its successor; one without its polls would
    look alive and take no job. An ended process is started again by `drafthouse up`, or by the container's restart
    policy, and the job continues from its bundles.
    """

    def run() -> None:
        try:
            work()
        except BaseException:
            logger.critical("the thread %r failed, so this process ends", name, exc_info=True)
            logging.shutdown()
            os._exit(EXIT_STATUS)  # sys.exit would end this thread alone

    return threading.Thread(target=run, name=name, daemon=True)
