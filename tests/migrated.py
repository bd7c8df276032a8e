"""A home with both databases, made by the migrations once and copied from then on: making it takes a second."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from warehouse.migrate import migrate
from warehouse.settings import Settings


@functools.cache
def migrated_home() -> Path:
    """Only to be copied. Gone with this process."""
    folder = Path(tempfile.mkdtemp(prefix="drafthouse-migrated-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    migrate(Settings(home=folder / "home"))
    return folder / "home"


def copy_migrated(home: Path) -> None:
    """A home of its own, which must not be there yet."""
    shutil.copytree(migrated_home(), home)
