"""A check of free disk space before work that would fill the disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.errors import HostError


def refuse_full_disk(folder: Path, least_mib: int, what: str) -> None:
    """Raise HostError if less than `least_mib` are free where the folder is, or will be."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free_mib = shutil.disk_usage(there).free / 2**20
    if free_mib < least_mib:
        raise HostError(
            f"{what} needs more disk space: {free_mib:,.0f} MiB are free at {folder.absolute()}, and at least "
            f"{least_mib:,} MiB must be (DRAFTHOUSE_LEAST_FREE_MIB): free some space, then try again"
        )
