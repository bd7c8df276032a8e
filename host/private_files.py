"""Access to a home's files on this host: for its user, and for a group that may read the warehouse, if there is one."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from lab.errors import SettingsError

#: Members of the group may traverse the home to files that they may read, but list nothing.
_ALONE, _WITH_GROUP = 0o700, 0o710


def write_for_nobody_else() -> None:
    """Make all new files and folders of this process readable for its user alone."""
    os.umask(0o077)


@contextlib.contextmanager
def write_for_engines() -> Iterator[None]:
    """Make what this process writes inside the block readable for everybody: engines may run as another user."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def protect_home(home: Path, group: str | None) -> None:
    """Close the home to others, even if it was open. Raises SettingsError for a group that cannot be used."""
    if group is not None:
        try:
            shutil.chown(home, group=group)
        except (LookupError, OSError) as error:
            raise SettingsError(
                f"home_group: {home.absolute()} cannot be given to the group {group!r}: {error}"
            ) from None
    home.chmod(_ALONE if group is None else _WITH_GROUP)


def share_with_group(path: Path, home: Path) -> None:
    """Let the home's group read a file, or traverse a folder, if the home is open to its group."""
    about = home.stat()
    if about.st_mode & 0o010:
        os.chown(path, -1, about.st_gid)
        path.chmod(0o750 if path.is_dir() else 0o640)


def open_to_others(home: Path) -> str:
    """Describe who besides its user can read the home, by its mode; empty if nobody can."""
    mode = home.stat().st_mode
    return "everybody on this host" if mode & 0o007 else "its group" if mode & 0o040 else ""
