"""Folders for what engines compile and download, under the home and private to the engines' user.

Engines run any compiled kernels and pickles that they find there. By default torch uses
`torchinductor_<user>` in the system's temporary folder, which any user of the host may have created.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from pathlib import Path

from lab.errors import SettingsError

#: Prefix of the folder under the home, before the user's number: a page and a worker of one home may be two users.
FOLDER = "engine-cache-"
#: Variables of caches, and their folders, that a worker's own environment may set otherwise.
_UNLESS_SET = {"TORCHINDUCTOR_CACHE_DIR": "torchinductor", "TRITON_CACHE_DIR": "triton", "CUDA_CACHE_PATH": "cuda"}


def cache_variables(home: Path, *, folder: str | None = None, uid: int | None = None, gid: int = -1) -> dict[str, str]:
    """Return the variables that point an engine to its caches; creates their folder if it is missing.

    `folder`, `uid`, `gid`: the engine's user, if it is not this process's. Models from a hub stay where that user's
    are. Raises SettingsError for a folder that belongs to another user.
    """
    whose = os.geteuid() if uid is None else uid
    own = _own_folder(home.absolute() / (folder or f"{FOLDER}{whose}"), whose, gid)
    caches = own / ".cache"
    # vLLM's, numba's and torch's further ones follow the first; the next two are FlashInfer's and TVM's
    variables = {"XDG_CACHE_HOME": caches, "FLASHINFER_WORKSPACE_BASE": own, "TVM_FFI_CACHE_DIR": caches / "tvm-ffi"}
    variables |= {name: caches / of for name, of in _UNLESS_SET.items() if uid is not None or not os.environ.get(name)}
    if uid is None and not os.environ.get("HF_HOME"):
        before = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        variables["HF_HOME"] = Path(before).expanduser() / "huggingface"
    return {name: str(path) for name, path in variables.items()}


def _own_folder(path: Path, uid: int, gid: int) -> Path:
    """Make the folder, private to this user. A link of its name is not followed."""
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
    try:
        opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise SettingsError(f"{path} is not a usable folder for engines: {error.strerror}: move it away") from None
    try:
        about = os.fstat(opened)
        if about.st_uid != uid and about.st_uid == os.geteuid() and not os.listdir(opened):  # noqa: PTH208 - by its descriptor; just made
            os.fchown(opened, uid, gid)
        elif about.st_uid != uid:
            raise SettingsError(
                f"{path} belongs to {_name(about.st_uid)}, and engines run as {_name(uid)}: what lies there would be "
                "run as code, so remove it or move it away"
            )
        if stat.S_IMODE(about.st_mode) != stat.S_IRWXU:
            os.fchmod(opened, stat.S_IRWXU)
    finally:
        os.close(opened)
    return path


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
