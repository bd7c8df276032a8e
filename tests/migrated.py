"""A home with both databases, made by the migrations once and copied from then on: making it takes a second."""

from __future__ import annotations

import atexit
import fcntl
import filecmp
import functools
import os
import shutil
import tempfile
from pathlib import Path

from host.settings import Settings
from warehouse.migrate import migrate


def scratch_folder() -> Path:
    """Gone with this process."""
    folder = Path(tempfile.mkdtemp(prefix="drafthouse-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


#: Made when this module is imported: the processes of one run, which are forked after that, have the same.
_OF_THIS_RUN = scratch_folder()


@functools.cache
def migrated_home() -> Path:
    """Only to be copied. The first process that asks makes it, and the others of its run wait for that."""
    home, made = _OF_THIS_RUN / "home", _OF_THIS_RUN / "made"
    with (_OF_THIS_RUN / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            shutil.rmtree(home, ignore_errors=True)  # of one that was interrupted
            migrate(Settings(home=home))
            made.touch()
    return home


def copy_migrated(home: Path) -> None:
    """A home of its own, which must not be there yet."""
    shutil.copytree(migrated_home(), home)


def is_new(home: Path) -> bool:
    """Whether nothing was written since it was copied, and no database of it is open."""
    names = ("app.sqlite", "warehouse.duckdb", "master.duckdb")
    return not any(home.glob("*.sqlite-*")) and all(
        filecmp.cmp(home / name, migrated_home() / name, shallow=False) for name in names
    )
