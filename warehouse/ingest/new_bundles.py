"""Finds new bundles: in their folder, without listing all of it each time, or by the table of the object store.

A folder's time of modification changes when something appears in it, so a folder is listed when that has changed, and
for some seconds afterwards, because entries may appear late on a network's file system and the clock of a file system
has coarse ticks. Each round checks the folders of running jobs and of the jobs that changed last; when a
worker requests a round, all of them. In addition all folders are listed one after the other, whatever their times.

An object store is never listed: its table says what is new, and it is fetched into the folder.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from lab.errors import BundleError
from warehouse.app_db import stored_objects
from warehouse.app_db.engine import DATABASE_ERRORS, database_words
from warehouse.bundles.pending import is_pending
from warehouse.bundles.removed import remove_copy
from warehouse.bundles.run_bundle import RUN_FILE, is_being_written
from warehouse.bundles.store import ObjectStore, StoreAway, is_path, local_path

_log = logging.getLogger("drafthouse.ingester")
#: A folder is listed in every round for this long after it changed.
SETTLES_S = 10.0
#: How many jobs' folders each round checks: those that changed last.
_WATCHED = 50
#: All folders have been listed after this many rounds; of more than 150,000 jobs after more, because a round lists no
#: more than this.
_ROUNDS, _MOST_IN_TURN = 300, 500
#: Fetching begins nothing new after this time, so that the ingester continues with what has arrived.
_BUDGET_S = 2.0
_TOGETHER = 32
_LONGEST_PAUSE_S = 60.0
#: A bundle whose parts differ from its manifest is fetched again after this time.
_DAMAGED_AGAIN_S = 60.0
#: How long a job that has ended waits for what a host announced and does not upload. It is judged without it then.
_ANNOUNCED_FOR_S = 24 * 3600.0


@dataclass
class _Folder:
    path: Path
    modified_ns: int = -1  # when it was last checked
    changed_s: float = 0.0  # monotonic: when a change of that time was first seen

    def is_due(self) -> bool:
        """Return whether entries may have appeared since the last call. Raises FileNotFoundError if it is gone."""
        modified_ns, now_s = self.path.stat().st_mtime_ns, time.monotonic()
        if modified_ns != self.modified_ns:
            self.modified_ns, self.changed_s = modified_ns, now_s
        return now_s - self.changed_s <= SETTLES_S


class NewBundles:
    """Finds the bundles under `root` that are not known yet. The first round lists everything."""

    def __init__(self, root: Path) -> None:
        self._root = _Folder(root)
        self._jobs: dict[str, _Folder] = {}  # those that changed last are at the end
        self._unfinished: set[Path] = set()  # folders without a run.json
        self._turn: Iterator[str] = iter(())

    def find(
        self, is_known: Callable[[str], bool], running: Iterable[str] = (), *, all_jobs: bool = False
    ) -> list[Path]:
        """Return the sorted folders of bundles whose path relative to the root is not `is_known`.

        `running` are jobs that may get runs at any time. Raises OSError if a folder cannot be listed.
        """
        fresh = self._new_jobs()
        last = itertools.islice(reversed(self._jobs), _WATCHED)
        looked_at = [*fresh, *(self._jobs if all_jobs else (*last, *running))]
        due = {job: None for job in looked_at if job in self._jobs and self._is_due(job)}
        due |= dict.fromkeys(itertools.islice(self._next_in_turn(), min(_MOST_IN_TURN, len(self._jobs) // _ROUNDS + 1)))
        complete = {path for path in self._unfinished if (path / RUN_FILE).exists()}
        for job in due:
            complete.update(self._listed(job, is_known))
        self._unfinished = {path for path in self._unfinished - complete if path.exists()}
        return sorted(complete)

    def _new_jobs(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError):
            if not self._root.is_due():
                return []
            with os.scandir(self._root.path) as entries:
                there = {entry.name for entry in entries if entry.is_dir()}
            fresh = sorted(there - self._jobs.keys())
            self._jobs = {name: folder for name, folder in self._jobs.items() if name in there}
            self._jobs |= {name: _Folder(self._root.path / name) for name in fresh}
            return fresh
        self._jobs.clear()
        return []

    def _is_due(self, job: str) -> bool:
        folder = self._jobs[job]
        before_s = folder.changed_s
        try:
            is_due = folder.is_due()
        except FileNotFoundError:
            del self._jobs[job]
            return False
        if folder.changed_s != before_s:
            self._jobs[job] = self._jobs.pop(job)  # to the end
        return is_due

    def _next_in_turn(self) -> Iterator[str]:
        for job in self._turn:
            if job in self._jobs:
                yield job
        self._turn = iter(list(self._jobs))

    def _listed(self, job: str, is_known: Callable[[str], bool]) -> Iterator[Path]:
        folder = self._root.path / job
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if not is_being_written(entry.name)]
        except FileNotFoundError:
            return
        for name in names:
            if is_known(f"{job}/{name}"):
                continue
            if (folder / name / RUN_FILE).exists():
                yield folder / name
            else:
                self._unfinished.add(folder / name)


class StoredBundles:
    """Finds the bundles that came into the store, wherever they were measured. The first round asks for all."""

    def __init__(self, root: Path, store: ObjectStore, database: sa.Engine) -> None:
        self._root, self._store, self._database = root, store, database
        self._serial = 0
        self._wanted: dict[str, None] = {}  # paths in the order of their rows
        self._damaged_until_s: dict[str, float] = {}
        self._failures, self._not_before_s = 0, 0.0
        self._logged: dict[str, str] = {}  # by what is away, what was said of it

    def find(
        self, is_known: Callable[[str], bool], _running: Iterable[str] = (), *, all_jobs: bool = False
    ) -> list[Path]:
        """Return the sorted folders of bundles that are here and not known. What cannot be fetched now is tried again
        after a pause that grows, or at once if a worker asks for a round.
        """
        self.read_rows(is_known)
        if all_jobs or time.monotonic() >= self._not_before_s:
            self._fetch()
        return sorted(self._root / path for path in self._arrived())

    def awaits(self, job_id: str) -> bool:
        """Return whether runs of a job may still come: announced, not fetched yet, or unknown without the database."""
        try:
            rows = stored_objects.of_job(self._database, job_id)
        except DATABASE_ERRORS:
            return True
        since = datetime.now(UTC) - timedelta(seconds=_ANNOUNCED_FOR_S)
        return any(
            row.at > since if row.serial is None else row.serial > self._serial or row.path in self._wanted
            for row in rows
        )

    def read_rows(self, is_known: Callable[[str], bool]) -> None:
        """Read what has come since the last call, and move the copies of removed runs aside."""
        try:
            rows = stored_objects.newer_than(self._database, self._serial)
        except DATABASE_ERRORS as error:
            self._log("database", f"the app database cannot be read ({database_words(error)}): new runs are not seen")
            return
        self._logged.pop("database", None)
        for row in rows:
            self._serial = row.serial or self._serial
            if not is_path(row.path):
                _log.error("%r in the table of the object store is not the path of a bundle", row.path)
            elif row.manifest_sha256 is None:
                self._wanted.pop(row.path, None)
                if not is_pending(self._root, row.path):  # it is imported again, and not uploaded yet
                    remove_copy(self._root, row.path)
            elif not is_known(row.path) and ("/" in row.path or not local_path(self._root, row.path).exists()):
                self._wanted[row.path] = None

    def _fetch(self) -> None:
        now_s = time.monotonic()
        missing = [path for path in self._wanted if not local_path(self._root, path).exists()]
        missing = [path for path in missing if now_s >= self._damaged_until_s.get(path, now_s)]
        try:
            while missing and time.monotonic() < now_s + _BUDGET_S:
                self._fetch_together(missing[:_TOGETHER])
                del missing[:_TOGETHER]
        except StoreAway as away:
            self._log("store", f"{away}. New runs wait there: trying again")
            self._failures += 1
            self._not_before_s = time.monotonic() + min(_LONGEST_PAUSE_S, 2.0 ** min(self._failures, 10))
        else:
            self._failures = 0
            self._logged.pop("store", None)

    def _fetch_together(self, paths: list[str]) -> None:
        try:
            self._store.fetch_all(self._root, paths)
        except BundleError as damaged:
            _log.error("%s", damaged)
            for path in paths:  # of these, all others are here
                if not local_path(self._root, path).exists():
                    self._damaged_until_s[path] = time.monotonic() + _DAMAGED_AGAIN_S

    def _arrived(self) -> list[str]:
        """Return the bundles that equal what is in the store, and forget that they were wanted."""
        there = [
            path for path in self._wanted if local_path(self._root, path).exists() and not is_pending(self._root, path)
        ]
        for path in there:
            del self._wanted[path]
        return [path for path in there if "/" in path]

    def _log(self, what: str, sentence: str) -> None:
        if sentence != self._logged.get(what):  # once: an outage may last for hours
            _log.warning("%s", sentence)
            self._logged[what] = sentence
