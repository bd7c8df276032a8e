"""The system user that engines run as, if it differs from the worker's: its rights and its environment.

Engines run code that comes with models and packages. As a separate user they read models and their configuration, but
no database, no key, no prompt of another study. The worker must run as root: only root starts programs as other users.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from host.settings import Settings
from jobs.engines.caches import cache_variables
from lab.errors import SettingsError

#: Folder under the home for the engines' own caches.
CACHE_FOLDER = "engine-home"
_CACHES = "XDG_CACHE_HOME"
_GO_THROUGH, _READ, _READ_FOLDER = 0o010, 0o040, 0o050


@dataclass(frozen=True)
class EngineUser:
    """A system user for engines. `groups` are all of the user's groups: a GPU's devices may belong to one."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


def engine_user(settings: Settings) -> EngineUser | None:
    """Return the user that the settings name, None for the worker's own. Raises SettingsError if it cannot be used."""
    name = settings.engine_user
    if name is None:
        return None
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise SettingsError(
            f"DRAFTHOUSE_ENGINE_USER: there is no user {name!r} on this host: `useradd {name}`"
        ) from None
    if found.pw_uid == 0:
        raise SettingsError("DRAFTHOUSE_ENGINE_USER must not be root: name a user who owns nothing")
    if settings.home_group is not None:
        raise SettingsError(
            "DRAFTHOUSE_ENGINE_USER and DRAFTHOUSE_HOME_GROUP cannot both be set: engines go through the home as "
            "its group, and would read the warehouse"
        )
    if os.geteuid() != 0:
        raise SettingsError(
            f"DRAFTHOUSE_ENGINE_USER: only a worker that runs as root can start engines as {name}: run `drafthouse "
            "worker` as root, or leave it out"
        )
    return EngineUser(name, found.pw_uid, found.pw_gid, tuple(os.getgrouplist(name, found.pw_gid)))


def environment_for(user: EngineUser, home: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an engine with the user's own home, which holds `user_caches`."""
    rest = {name: value for name, value in environment.items() if name == _CACHES or not name.startswith("XDG_")}
    return rest | {"HOME": str(home.absolute() / CACHE_FOLDER), "USER": user.name, "LOGNAME": user.name}


def user_caches(user: EngineUser | None, home: Path) -> dict[str, str]:
    """Return the variables of the caches of engines that run as this user; their folder is made if it is missing."""
    if user is None:
        return cache_variables(home)
    return cache_variables(home, folder=CACHE_FOLDER, uid=user.uid, gid=user.gid)


def let_through(user: EngineUser, home: Path, *paths: Path) -> None:
    """Let the user traverse the home to these paths and read below them, and nothing else."""
    for path in paths:
        if not path.exists():
            continue
        for folder in (home, *reversed([above for above in path.parents if above.is_relative_to(home)])):
            _add(folder, user, _GO_THROUGH)
        for inside in (path, *path.rglob("*")):
            if not inside.is_symlink():
                _add(inside, user, _READ_FOLDER if inside.is_dir() else _READ)


def _add(path: Path, user: EngineUser, mode: int) -> None:
    about = path.stat()
    if about.st_gid != user.gid:
        os.chown(path, -1, user.gid)
    # others never get access, and access of another group is not passed on to this one
    path.chmod((about.st_mode & 0o700) | mode | (about.st_mode & 0o070 if about.st_gid == user.gid else 0))
