"""Start a module of ours as a process of its own, with an environment and an output of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).parents[1]
Started = subprocess.Popen[bytes]


def start(module: str, *arguments: str, environment: Mapping[str, str], folder: Path, output: Path) -> Started:
    """Run `python -m module` in the folder; what it prints is appended to the file `output`.

    It imports this checkout whatever the folder is.
    """
    with output.open("ab") as file:
        return subprocess.Popen(
            (sys.executable, "-m", module, *arguments),
            cwd=folder,
            env={**environment, "PYTHONPATH": os.pathsep.join((str(REPOSITORY), environment.get("PYTHONPATH", "")))},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended, though its parent may not have collected it yet."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
