"""Bundles of imported results that were removed: moved aside as they are, never changed or deleted.

The ingester finds what was moved, and takes its rows out of the warehouse or puts them in again.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

from lab.errors import UserError
from warehouse.bundles.imported_bundle import is_imported
from warehouse.bundles.provenance import PROVENANCE_FILE

#: The separator between a job and the moment of its removal in a folder's name.
_SEPARATOR = "~"
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*")


def removed_folder(bundles: Path) -> Path:
    """Return the folder of removed bundles, which is on the same file system as the folder of the others."""
    return bundles.with_name(f"{bundles.name}-removed")


def removed_jobs(bundles: Path) -> set[str]:
    """Return the jobs that lost runs at any time, even if the runs have been restored since."""
    folder = removed_folder(bundles)
    return {path.name.partition(_SEPARATOR)[0] for path in folder.iterdir()} if folder.is_dir() else set()


def removable_runs(bundles: Path, job_id: str) -> list[str]:
    """Return the paths of the runs of a job of imported results. Raises UserError for any other job."""
    folder = _job_folder(bundles, job_id)
    if not folder.is_dir() or not all(is_imported(run) or (run / PROVENANCE_FILE).exists() for run in _runs(folder)):
        raise UserError(f"{job_id} has no imported results: only those can be removed")
    return [f"{job_id}/{run.name}" for run in _runs(folder)]


def remove_job(bundles: Path, job_id: str) -> None:
    """Move the runs of a job of imported results aside. Raises UserError for any other job."""
    removable_runs(bundles, job_id)
    folder, aside = _job_folder(bundles, job_id), removed_folder(bundles)
    aside.mkdir(exist_ok=True)
    folder.rename(aside / f"{job_id}{_SEPARATOR}{time.time_ns()}")


def restore_job(bundles: Path, job_id: str) -> list[str]:
    """Move the last removed runs back, except those that were imported again meanwhile. Return their paths."""
    target = _job_folder(bundles, job_id)
    moved = sorted(removed_folder(bundles).glob(f"{job_id}{_SEPARATOR}*"))
    if not moved:
        raise UserError(f"no results of {job_id} were removed")
    target.mkdir(exist_ok=True)
    back = [run for run in _runs(moved[-1]) if not (target / run.name).exists()]
    for run in back:
        run.rename(target / run.name)
    if not any(moved[-1].iterdir()):
        moved[-1].rmdir()
    return [f"{job_id}/{run.name}" for run in back]


def remove_copy(bundles: Path, path: str) -> None:
    """Move the copy of a run aside that was removed on another host; do nothing without one."""
    if (bundles / path).exists():
        job_id, _, run_id = path.partition("/")
        aside = removed_folder(bundles) / f"{job_id}{_SEPARATOR}{time.time_ns()}"
        aside.mkdir(parents=True)
        (bundles / path).rename(aside / run_id)


def _job_folder(bundles: Path, job_id: str) -> Path:
    """Return the folder of a job. Raises UserError for a text that cannot be a job's id."""
    if not _JOB.fullmatch(job_id):
        raise UserError(f"{job_id!r} is not the id of a job")
    return bundles / job_id


def _runs(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.iterdir()) if path.is_dir())
