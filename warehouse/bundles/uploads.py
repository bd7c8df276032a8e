"""Uploads what is pending in a home to the object store: between measured windows, and again until it succeeds.

Killed at any line it loses and doubles nothing: parts and manifest are written again with the same content, the row is
written once, and the mark that a bundle is pending goes last.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

import sqlalchemy as sa

from host import quiet
from host.settings import Settings
from lab.errors import DrafthouseError
from lab.metrics.number_format import counted
from warehouse.app_db import stored_objects
from warehouse.app_db.engine import DATABASE_ERRORS, database_words
from warehouse.bundles.pending import (
    is_pending,
    make_pending_folder,
    marked_since_s,
    pending_folder,
    pending_paths,
    remove_mark,
)
from warehouse.bundles.store import ObjectStore, StoreAway, local_path, local_paths

T = TypeVar("T")
logger = logging.getLogger(__name__)
_POLL_EVERY_S, _LONGEST_PAUSE_S = 0.5, 30.0
#: A window that begins during an upload ends it within this time.
_WINDOW_SEEN_WITHIN_S = 0.05
#: How long an ending process keeps uploading.
_LAST_S = 10.0
#: A bundle that is marked and missing for so long was never finished: its writer was killed.
_LEFT_BEHIND_S, _BEING_WRITTEN_S = 24 * 3600.0, 60.0
#: A worker's host removes its copies of what is in the store when they are a day old.
_COPIES_LAST_S, _REMOVE_COPIES_EVERY_S = 24 * 3600.0, 3600.0
#: How long a job waits for runs that another host was to upload.
_AWAITED_FOR_S = 600.0
_LOCK_FILE = ".lock"


class _WindowBegins(DrafthouseError):  # noqa: N818 - an event: the upload begins again after the window
    """A measured window began during an upload."""


class Uploads:
    """The uploads of one process. Several processes of a home take turns. Use as `with Uploads(...)`."""

    def __init__(self, settings: Settings, database: sa.Engine, store: ObjectStore) -> None:
        self._settings, self._database, self._store = settings, database, store
        self._failures = Counter[str]()  # by path: what failed is tried after the others
        self._removed_copies_s = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="uploads", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Upload what is left, for a few seconds at most: the next start uploads the rest."""
        self._stop.set()
        self._thread.join(_LAST_S)

    def upload_pending(self, stop: threading.Event) -> None:
        """Upload everything that is pending, unless another process does or `stop` is set.

        Raises StoreAway, DATABASE_ERRORS or OSError at the first failure.
        """
        bundles = self._settings.bundles
        with _only_uploader(bundles) as may_upload:
            waiting = sorted(pending_paths(bundles), key=self._failures.__getitem__) if may_upload else []
            for path in waiting:
                with quiet.between_windows(self._settings.home, stop, "an upload") as is_quiet:
                    if not is_quiet:
                        return
                    try:
                        self._upload(path)
                    except _WindowBegins:
                        continue
                    except Exception:
                        self._failures[path] += 1
                        raise
                self._failures.pop(path, None)

    def _upload(self, path: str) -> None:
        bundles, local = self._settings.bundles, local_path(self._settings.bundles, path)
        if not local.exists():
            self._settle_missing(path)
            return
        upload = self._store.upload(bundles, path)
        manifest_sha256, is_ours = asyncio.run(_until_window(self._settings.home, upload))
        if not is_ours:
            logger.warning("%s: another writer was first, and its bundle counts; these parts are in the store", path)
            self._replace(path)
        stored_objects.record(self._database, path, manifest_sha256)
        remove_mark(bundles, path)
        quiet.ask_for_round(self._settings.home)
        logger.info("uploaded %s", path)

    def _replace(self, path: str) -> None:
        """Put what is in the store into the place of another writer's; leave that if it cannot be fetched."""
        local = local_path(self._settings.bundles, path)
        hidden = local.with_name(f".writing-{local.name}-refused")
        _remove(hidden)
        local.rename(hidden)
        try:
            self._store.fetch(self._settings.bundles, path)
        except BaseException:
            hidden.rename(local)
            raise
        _remove(hidden)

    def _settle_missing(self, path: str) -> None:
        """Look after a mark without a bundle: being written, given up, or removed after another's manifest was seen."""
        age_s = time.time() - marked_since_s(self._settings.bundles, path)
        if age_s < _BEING_WRITTEN_S:
            return
        if (manifest_sha256 := self._store.manifest_sha256(path)) is not None:
            stored_objects.record(self._database, path, manifest_sha256)
        if manifest_sha256 is not None or age_s > _LEFT_BEHIND_S:
            remove_mark(self._settings.bundles, path)

    def _run(self) -> None:
        failures, never = 0, threading.Event()
        while True:
            is_last = self._stop.is_set()
            try:
                self.upload_pending(never if is_last else self._stop)
                self._remove_copies()
                failures = 0
            except (StoreAway, OSError, *DATABASE_ERRORS) as error:
                failures += 1
                if failures == 1:  # once: an outage may last for hours
                    sentence = database_words(error) if isinstance(error, DATABASE_ERRORS) else str(error)
                    logger.warning("%s. Runs wait here, and nothing is lost: trying again", sentence)
            except Exception:
                failures += 1
                logger.exception("an upload failed: trying again")
            if is_last:
                return
            longest_s = min(_LONGEST_PAUSE_S, _POLL_EVERY_S * 2.0 ** min(failures, 10))
            self._stop.wait(longest_s * random.uniform(0.5, 1.0) if failures else _POLL_EVERY_S)  # noqa: S311 - no secret

    def _remove_copies(self) -> None:
        """Remove old copies of what is in the store, by the rows, on a host that has no warehouse.

        The published file says so: between two publications there may be no master.
        """
        if self._settings.warehouse_file.exists() or time.monotonic() - self._removed_copies_s < _REMOVE_COPIES_EVERY_S:
            return
        self._removed_copies_s = time.monotonic()
        bundles, old_s = self._settings.bundles, time.time() - _COPIES_LAST_S
        for job in [path for path in bundles.glob("[!.]*") if path.stat().st_mtime < old_s]:
            rows = stored_objects.of_job(self._database, job.name)
            stored = {row.path for row in rows if row.manifest_sha256 is not None}
            for folder in job.glob("[!.]*"):
                path = f"{job.name}/{folder.name}"
                if path in stored and not is_pending(bundles, path):
                    _remove(folder)
            with contextlib.suppress(OSError):  # of one that is not empty
                job.rmdir()


@contextlib.contextmanager
def uploading(settings: Settings, database: sa.Engine) -> Iterator[None]:
    """Upload in a thread while the block runs, if there is an object store. Raises StoreAway for an invalid one."""
    if settings.bundles_url is None:
        yield
        return
    prepare(settings)
    with Uploads(settings, database, ObjectStore(settings.bundles_url)):
        yield


def upload_all(settings: Settings, database: sa.Engine) -> None:
    """Upload what is pending now, if there is an object store. Raises StoreAway, DATABASE_ERRORS or OSError."""
    if settings.bundles_url is not None:
        prepare(settings)
        Uploads(settings, database, ObjectStore(settings.bundles_url)).upload_pending(threading.Event())


def prepare(settings: Settings) -> None:
    """Make the folder of marks if there is an object store: what is in the folder of bundles by then is pending."""
    if settings.bundles_url is not None and not pending_folder(settings.bundles).is_dir():
        make_pending_folder(settings.bundles, local_paths(settings.bundles))


def announce_pending(settings: Settings, database: sa.Engine, job_id: str) -> None:
    """Record which runs of a job are still to be uploaded from here, before the job or a block of it ends."""
    mine = [path for path in pending_paths(settings.bundles) if path.startswith(f"{job_id}/")]
    if written := [path for path in mine if local_path(settings.bundles, path).exists()]:
        stored_objects.announce(database, written)


def fetch_job(settings: Settings, database: sa.Engine, job_id: str) -> None:
    """Bring the bundles of a job that other hosts measured into the folder. Raises StoreAway if some are not uploaded
    yet; those of a host that does not come back are measured again.
    """
    if settings.bundles_url is None:
        return
    bundles, rows = settings.bundles, stored_objects.of_job(database, job_id)
    missing = [row for row in rows if "/" in row.path and not local_path(bundles, row.path).exists()]
    since = datetime.now(UTC) - timedelta(seconds=_AWAITED_FOR_S)
    if late := [row for row in missing if row.serial is None and row.at > since]:
        raise StoreAway(
            f"{late[0].host} has not uploaded {counted(len(late), 'run')} of {job_id} yet: wait until it has"
        )
    if paths := [row.path for row in missing if row.manifest_sha256 is not None]:
        ObjectStore(settings.bundles_url).fetch_all(bundles, paths)


@contextlib.contextmanager
def _only_uploader(bundles: Path) -> Iterator[bool]:
    """Hold the home's lock on uploads; False if another process has it."""
    with (pending_folder(bundles) / _LOCK_FILE).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


async def _until_window(home: Path, work: Coroutine[Any, Any, T]) -> T:
    """Await the work. Raises _WindowBegins, and ends the work, as soon as a window is on that was not at first."""
    windows = {window.name for window in quiet.under_way(home, "window")}
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.wait([task], timeout=_WINDOW_SEEN_WITHIN_S)
        if not windows and not task.done() and quiet.under_way(home, "window"):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            raise _WindowBegins
    return task.result()


def _remove(local: Path) -> None:
    """Remove a bundle or a verdict, if it exists, so that no reader sees a part of it."""
    if local.is_dir():
        hidden = local.with_name(f".writing-{local.name}-removed")
        shutil.rmtree(hidden, ignore_errors=True)
        local.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)
    else:
        local.unlink(missing_ok=True)
