"""Packages of this host that an engine's environment gets as links: nothing is downloaded.

With them a host whose own Python has torch and transformers has the engine `transformers`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement

from host.files import write_whole
from host.private_files import write_for_engines
from jobs.engines.profiles import engines_text
from lab.errors import UserError
from workers.engine_runtime.install import uv

_NEEDED = ("torch", "transformers")
#: What else our server imports.
_OF_SERVER = ("aiohttp", "jinja2", "pydantic")
_FOLDER = "transformers"
_COMMAND_OF_VLLM, _COMMAND = '"{engines}/vllm/bin/python"', f'"{{engines}}/{_FOLDER}/bin/python"'
_ASK = """
import importlib.util, json, sys
has = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
folders = [path for path in sys.path if path.endswith("-packages")]
print(json.dumps([has, list(sys.version_info[:2]), folders]))
"""
_ANSWERS_WITHIN_S = 60.0


@dataclass(frozen=True)
class HostPython:
    """A Python of this host that has torch and transformers."""

    program: Path
    has: tuple[str, ...]  # of what the engine needs
    version: tuple[int, int]
    folders: tuple[Path, ...]  # of its packages, first the one that counts


def host_python(environment: Mapping[str, str]) -> HostPython | None:
    """Return the first Python of PATH that has torch and transformers."""
    for folder in environment.get("PATH", os.defpath).split(os.pathsep):
        names = ["python3", "python", *(path.name for path in sorted(Path(folder or ".").glob("python3.[0-9]*")))]
        for name in names:
            program = Path(folder, name)
            if os.access(program, os.X_OK) and (found := _asked(program, environment)) is not None:
                return found
    return None


def _asked(program: Path, environment: Mapping[str, str]) -> HostPython | None:
    command = (str(program), "-c", _ASK, *_NEEDED, *_OF_SERVER)
    try:
        done = subprocess.run(
            command, env=dict(environment), capture_output=True, text=True, check=True, timeout=_ANSWERS_WITHIN_S
        )
        has, (major, minor), folders = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None  # no Python 3, or one that does not start
    if not set(_NEEDED) <= set(has):
        return None
    return HostPython(program, tuple(has), (major, minor), tuple(map(Path, folders)))


@write_for_engines()
def install_transformers(engines_dir: Path, engines_file: Path, python: HostPython) -> str:
    """Make the engine `transformers` of a Python of this host, and name it in engines.toml. Return a sentence.

    Raises UserError if that Python lacks what our server needs and cannot use our own packages.
    """
    missing = [name for name in _OF_SERVER if name not in python.has]
    if missing and python.version != sys.version_info[:2]:
        needed = " ".join(missing)
        raise UserError(
            f"{python.program} has torch and transformers, and lacks {needed}, of which Drafthouse has builds for "
            f"Python 3.{sys.version_info.minor} alone: run `{python.program} -m pip install {needed}`"
        )
    text = engines_text(engines_file)
    if _COMMAND_OF_VLLM not in text and _COMMAND not in text:
        raise UserError(f"{engines_file} has another engine `transformers`: set its command to [{_COMMAND}]")
    folder = engines_dir / _FOLDER
    shutil.rmtree(folder, ignore_errors=True)
    uv("venv", "--quiet", "--python", str(python.program), str(folder))
    (packages,) = folder.glob("lib/python3*/site-packages")
    for of_host in python.folders:
        _link(of_host.iterdir() if of_host.is_dir() else (), packages)
    link_ours(missing, packages, with_needed=True)
    write_whole(engines_file, text.replace(_COMMAND_OF_VLLM, _COMMAND))
    return f"the engine `transformers` is that of {python.program}, linked in {folder}"


def link_ours(names: Collection[str], folder: Path, *, with_needed: bool) -> None:
    """Link packages of our own environment into a folder, perhaps with all that they need. Links that exist stay."""
    wanted, seen = list(names), set[str]()
    while wanted:
        found = distribution(wanted.pop())
        if found.name in seen:
            continue
        seen.add(found.name)
        _link((Path(str(found.locate_file(top))) for top in {file.parts[0] for file in found.files or ()}), folder)
        needed = [Requirement(text) for text in found.requires or ()] if with_needed else []
        wanted += [each.name for each in needed if each.marker is None or each.marker.evaluate({"extra": ""})]


def _link(entries: Iterable[Path], folder: Path) -> None:
    for entry in entries:
        target = folder / entry.name
        if entry.name not in ("..", "__pycache__") and not target.is_symlink() and not target.exists():
            target.symlink_to(entry.absolute())
