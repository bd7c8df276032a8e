"""Marks what is in the folder of bundles, but not in the object store yet: the folder is the spool of the uploads.

`<bundles>-pending/` has an empty file for each bundle and each stored verdict that waits. The mark is on disk before
what it names, and is removed once manifest and row exist (`uploads`). So whatever has no mark is in the store, and
equal there. A lab without an object store has no such folder, and nothing is marked.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

#: In the name of a mark, in place of the slash between job and run.
_SLASH = "+"


def pending_folder(bundles: Path) -> Path:
    return bundles.with_name(f"{bundles.name}-pending")


def mark_pending(bundles: Path, path: str) -> None:
    """Mark a bundle, by `JOB/RUN`, or a verdict, by its id, that is about to appear. Raises OSError."""
    folder = pending_folder(bundles)
    if folder.is_dir():
        _mark(bundles, path).touch()
        fsync(folder)


def is_pending(bundles: Path, path: str) -> bool:
    return _mark(bundles, path).exists()


def pending_paths(bundles: Path) -> list[str]:
    """Return what waits, the oldest mark first."""
    marks = []
    for mark in pending_folder(bundles).glob("[!.]*"):
        with contextlib.suppress(FileNotFoundError):  # it was uploaded meanwhile
            marks.append((mark.stat().st_mtime_ns, mark.name))
    return [name.replace(_SLASH, "/") for _, name in sorted(marks)]


def marked_since_s(bundles: Path, path: str) -> float:
    """Return when it was marked, in seconds since 1970. Raises FileNotFoundError."""
    return _mark(bundles, path).stat().st_mtime


def remove_mark(bundles: Path, path: str) -> None:
    _mark(bundles, path).unlink(missing_ok=True)


def make_pending_folder(bundles: Path, paths: Iterable[str]) -> None:
    """Make the folder, with a mark for each path: all of them or none. An existing one stays as it is."""
    folder = pending_folder(bundles)
    staged = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
    staged.mkdir(parents=True)
    try:
        for path in paths:
            (staged / path.replace("/", _SLASH)).touch()
        fsync(staged)
        if not folder.is_dir():
            staged.rename(folder)
            fsync(folder.parent)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def fsync(path: Path) -> None:
    """Flush a file or folder to disk, so that it survives a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _mark(bundles: Path, path: str) -> Path:
    return pending_folder(bundles) / path.replace("/", _SLASH)
