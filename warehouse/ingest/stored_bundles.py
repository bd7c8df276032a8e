"""Finds new bundles by the table of the object store, and fetches them into the folder; the store is never listed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import sqlalchemy as sa

from lab.errors import BundleError
from warehouse.app_db import stored_objects
from warehouse.app_db.engine import DATABASE_ERRORS, database_words
from warehouse.bundles.pending import is_pending
from warehouse.bundles.removed import remove_copy
from warehouse.bundles.store import ObjectStore, StoreAway, is_path, local_path

_log = logging.getLogger("drafthouse.ingester")
#: Fetching begins nothing new after this time, so that the ingester continues with what has arrived.
_BUDGET_S = 2.0
_TOGETHER = 32
_LONGEST_PAUSE_S = 60.0
#: A bundle whose parts differ from its manifest is fetched again after this time.
_DAMAGED_AGAIN_S = 60.0


class StoredBundles:
    """Finds the bundles that came into the store, wherever they were measured. The first round asks for all."""

    def __init__(self, root: Path, store: ObjectStore, database: sa.Engine) -> None:
        self._root, self._store, self._database = root, store, database
        self._serial = 0
        self._wanted: dict[str, None] = {}  # paths in the order of their rows
        self._damaged_until_s: dict[str, float] = {}
        self._failures, self._not_before_s, self._logged = 0, 0.0, ""

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
        return any(row.serial is None or row.serial > self._serial or row.path in self._wanted for row in rows)

    def read_rows(self, is_known: Callable[[str], bool]) -> None:
        """Read what has come since the last call, and move the copies of removed runs aside."""
        try:
            rows = stored_objects.newer_than(self._database, self._serial)
        except DATABASE_ERRORS as error:
            self._log(f"the app database cannot be read ({database_words(error)}): new runs are not seen")
            return
        for row in rows:
            self._serial = row.serial or self._serial
            if not is_path(row.path):
                _log.error("%r in the table of the object store is not the path of a bundle", row.path)
            elif row.manifest_sha256 is None:
                self._wanted.pop(row.path, None)
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
            self._log(f"{away}. New runs wait there: trying again")
            self._failures += 1
            self._not_before_s = time.monotonic() + min(_LONGEST_PAUSE_S, 2.0 ** min(self._failures, 10))
        else:
            self._failures, self._logged = 0, ""

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

    def _log(self, sentence: str) -> None:
        if sentence != self._logged:  # once: an outage may last for hours
            _log.warning("%s", sentence)
            self._logged = sentence
