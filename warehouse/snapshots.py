"""Snapshots of the published warehouse for readers elsewhere: each is a file that is never written to.

A snapshot is made on the first request, as another name of the published file, which costs no copy. Its name is the
SHA-256 of its content. While it has that name it cannot become the next master (`warehouse.ingest.publication`): the
ingester copies instead. So a lab without such requests copies nothing.

The last snapshots stay, and any that was requested within ten minutes. If a new one would take too much disk or
processor time, readers get the newest existing one.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from host.files import sha256_of
from host.quiet import run_at_low_priority
from lab.errors import MIGRATE_COMMAND, UnknownNameError, UserError

FOLDER, SUFFIX = "snapshots", ".duckdb"
#: A snapshot that was requested this recently is in use: a reader requests its ranges as its queries need them.
IN_USE_S = 600.0
#: This much space may be used whatever the size of the warehouse: a small one changes with every run.
ALWAYS_BYTES = 1 << 30
#: The pause before a new one, as a multiple of the time that the last one took: at most a twentieth of a processor is
#: used.
REST = 20
_NAME = re.compile(r"[0-9a-f]{64}")
_State = tuple[int, int, int]


@dataclass(frozen=True)
class Snapshot:
    """A state of the warehouse. `digest` is the SHA-256 of the file's content, in hexadecimal."""

    digest: str
    file: Path
    bytes: int
    published_at: datetime


class Snapshots:
    """The snapshots of one home. Safe to use from any thread; one process has them."""

    def __init__(self, home: Path, published: Path, kept: int) -> None:
        self._home, self._published, self._kept = home, published, kept
        self._folder = home / FOLDER
        self._making = threading.Lock()
        self._again_s = float("-inf")
        self._states: dict[str, _State] = {}
        self._asked_s: dict[str, float] = {}
        self._take_over()

    def newest(self) -> Snapshot:
        """Return the published state, or the newest snapshot while making a newer one costs too much.

        Raises UserError if nothing is published yet.
        """
        if (known := self._of_published()) is not None:
            return self.find(known)
        newest = self._newest_made()
        if newest is not None and time.monotonic() < self._again_s:
            return self.find(newest)
        if not self._making.acquire(blocking=newest is None):
            return self.find(str(newest))
        try:
            known = self._of_published() or self._make_within_bounds()
        finally:
            self._making.release()
        return self.find(known)

    def find(self, digest: str) -> Snapshot:
        """Return the snapshot of this digest, which is in use from now on. Raises UnknownNameError."""
        file = self._file(digest)
        is_known = digest in self._states
        if is_known:  # before the file is read, or it could be removed in between
            self._asked_s[digest] = time.monotonic()
        status = _status(file) if is_known else None
        if status is None:
            raise UnknownNameError(
                f"there is no snapshot {digest[:64]!r} any more: /warehouse/latest redirects to the newest"
            )
        return Snapshot(digest, file, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def _take_over(self) -> None:
        """Take over the snapshots of an earlier process, so that its readers can continue."""
        for leftover in self._folder.glob(".*"):
            leftover.unlink(missing_ok=True)
        files = [file for file in self._folder.glob(f"*{SUFFIX}") if _NAME.fullmatch(file.stem)]
        for file in sorted(files, key=lambda file: file.stat().st_mtime_ns):
            self._states[file.stem], self._asked_s[file.stem] = _state(file), time.monotonic()

    def _of_published(self) -> str | None:
        try:
            state = _state(self._published)
        except FileNotFoundError:
            raise UserError(f"there is no warehouse in {self._home.absolute()} yet: run `{MIGRATE_COMMAND}`") from None
        return next((digest for digest, has in self._states.items() if has == state), None)

    def _newest_made(self) -> str | None:
        return next(reversed(self._states), None)

    def _make_within_bounds(self) -> str:
        self._remove_unused()
        size = self._published.stat().st_size
        used = sum(bytes_ for _, bytes_, _ in self._states.values())
        newest = self._newest_made()
        if newest is not None and used + size > max(ALWAYS_BYTES, (self._kept + 1) * size):
            return newest
        began_s = time.monotonic()
        digest = run_at_low_priority(self._home, "snapshot", self._make)
        self._again_s = time.monotonic() + REST * (time.monotonic() - began_s)
        return digest

    def _make(self) -> str:
        self._folder.mkdir(exist_ok=True)
        hidden = self._folder / f".{uuid.uuid4().hex}"
        try:
            _link(self._published, hidden)
            digest = sha256_of(hidden)
            state = _state(hidden)
            hidden.rename(self._file(digest))
        finally:
            hidden.unlink(missing_ok=True)
        self._states.pop(digest, None)
        self._states[digest] = state
        return digest

    def _remove_unused(self) -> None:
        """Remove all but the last snapshots and those in use, with room for one more."""
        older = list(self._states)[: max(0, len(self._states) - self._kept + 1)]
        for digest in older:
            if time.monotonic() - self._asked_s.get(digest, float("-inf")) > IN_USE_S:
                self._file(digest).unlink(missing_ok=True)
                self._states.pop(digest), self._asked_s.pop(digest, None)

    def _file(self, digest: str) -> Path:
        return self._folder / f"{digest}{SUFFIX}"


def _status(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except FileNotFoundError:
        return None


def _state(file: Path) -> _State:
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _link(source: Path, target: Path) -> None:
    """Give the file a second name; copy it where the file system has no such names."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        done = subprocess.run(["cp", "-p", "--", source, target], capture_output=True, text=True, check=False)
        if done.returncode:
            raise UserError(f"no snapshot can be made in {target.parent}: {done.stderr.strip()}") from None
