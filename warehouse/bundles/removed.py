"""Bundles of imported results that were removed: moved aside as they are, never changed. A purge alone deletes some.

The ingester finds what was moved, and takes its rows out of the warehouse or puts them in again.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from lab.errors import UserError
from warehouse.bundles.imported_bundle import is_imported
from warehouse.bundles.judgements import judgements_folder
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


def removed_runs(bundles: Path, seen: set[str]) -> set[str]:
    """Return the paths of the runs in folders of removed results that were not `seen`, and add those folders to it."""
    folder, found = removed_folder(bundles), set[str]()
    for moved in (moved for moved in folder.iterdir() if moved.name not in seen):
        found.update(f"{moved.name.partition(_SEPARATOR)[0]}/{run.name}" for run in _runs(moved))
        seen.add(moved.name)
    return found


def imported_runs(bundles: Path, job_id: str) -> list[str]:
    """Return the paths of the runs of a job of imported results; none for any other job. Raises UserError for a text
    that cannot be a job's id.
    """
    folder = _job_folder(bundles, job_id)
    runs = list(_runs(folder)) if folder.is_dir() else []
    is_of_imports = all(is_imported(run) or (run / PROVENANCE_FILE).exists() for run in runs)
    return [f"{job_id}/{run.name}" for run in runs] if is_of_imports else []


def remove_job(bundles: Path, job_id: str) -> None:
    """Move the runs of a job aside."""
    folder, aside = _job_folder(bundles, job_id), removed_folder(bundles)
    aside.mkdir(exist_ok=True)
    folder.rename(aside / f"{job_id}{_SEPARATOR}{time.time_ns()}")


def restore_job(bundles: Path, job_id: str) -> list[str]:
    """Move the last removed runs back, if there are any, except those that were imported again meanwhile. Return their
    paths.
    """
    target = _job_folder(bundles, job_id)
    moved = sorted(removed_folder(bundles).glob(f"{job_id}{_SEPARATOR}*"))
    if not moved:
        return []
    target.mkdir(exist_ok=True)
    back = [run for run in _runs(moved[-1]) if not (target / run.name).exists()]
    for run in back:
        run.rename(target / run.name)
    if not any(moved[-1].iterdir()):
        moved[-1].rmdir()
    return [f"{job_id}/{run.name}" for run in back]


def purge_job(bundles: Path, job_id: str) -> None:
    """Delete the runs and verdicts of a job for good, those that were moved aside too; repeating it continues.

    They are moved aside first, and empty folders stay there: by them the ingester finds what is gone.
    """
    aside = removed_folder(bundles)
    if _job_folder(bundles, job_id).is_dir():
        remove_job(bundles, job_id)
    for run in (run for moved in aside.glob(f"{job_id}{_SEPARATOR}*") for run in moved.iterdir()):
        shutil.rmtree(run) if run.is_dir() else run.unlink()
    for file in judgements_folder(bundles).glob(f"{job_id}{_SEPARATOR}*.json"):
        file.unlink()


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
