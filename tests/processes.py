"""Processes of ours, each a module that runs as `python -m` does, with an environment and an output of its own.

They are not forked from a process that has imported what they need, which would save a second of a processor: of some
hundred forked ones one was gone without a word, and its test waited for it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]


def start(
    module: str, *arguments: str, environment: Mapping[str, str], folder: Path, output: Path
) -> subprocess.Popen[bytes]:
    """Its output is appended to the file `output`."""
    paths = (str(REPOSITORY), environment.get("PYTHONPATH", ""))
    variables = {**environment, "PYTHONPATH": ":".join(filter(None, paths))}
    with output.open("ab") as file:
        command = (sys.executable, "-m", module, *arguments)
        return subprocess.Popen(command, cwd=folder, env=variables, stdout=file, stderr=file)
