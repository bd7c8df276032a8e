"""Everything around a run that could have changed its numbers, found out rather than assumed."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil

from lab.records import Circumstances
from lab.study import Arm, Study
from warehouse.settings import Settings
from workers.engines.hardware import hardware_name, processors
from workers.engines.launch import Command, RunningEngine
from workers.engines.models import local_folder, model_path

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_CHUNK_BYTES = 1 << 22


def circumstances(
    settings: Settings, study: Study, arm: Arm, *, target_digest: str | None, engine: RunningEngine | Command | None
) -> Circumstances:
    """`engine`: the running one, or as far as it came: its command, or None when not even that could be made."""
    command = engine.command if isinstance(engine, RunningEngine) else engine
    running = engine if isinstance(engine, RunningEngine) else None
    return Circumstances(
        hardware=hardware_name(),
        host=platform.node(),
        cpu_count=len(processors()),
        memory_bytes=psutil.virtual_memory().total,
        os=platform.platform(),
        python_version=platform.python_version(),
        drafthouse_revision=_revision(),
        engine=arm.engine,
        engine_version=running.version if running else None,
        command=command.words if command else (),
        environment=command.own_environment if command else {},
        effective_config=running.effective_config if running else {},
        target_path=model_path(settings, study.target),
        target_digest=target_digest,
        start_s=running.start_s if running else None,
    )


@functools.cache
def _revision() -> str | None:
    """The commit this code was started from, with `+changes` when files differ from it; None outside a checkout."""
    here = Path(__file__).parent

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(("git", "-C", str(here), *arguments), capture_output=True, text=True, check=False)
        except FileNotFoundError:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    tracked = git("ls-files", "--error-unmatch", __file__)  # installed inside another project's checkout: not ours
    commit = git("rev-parse", "--verify", "HEAD") if tracked else None
    if commit is None:
        return None
    return commit + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")


def weights_digest(settings: Settings, model: str, check: Callable[[], None]) -> str | None:
    """SHA-256 over the names and contents of a folder's weights; None for a hub name or a folder without weights.

    Remembered by path, size and time of change. `check` is called often, to raise when the job must stop.
    """
    folder = local_folder(settings, model)
    files = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS) if folder and folder.is_dir() else []
    if not files:
        return None
    memory = settings.home / "engines" / "digests"
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.name}\0{_file_digest(memory, path, check)}\n".encode())
    return total.hexdigest()


def _file_digest(memory: Path, path: Path, check: Callable[[], None]) -> str:
    stat = path.stat()
    key = hashlib.sha256(json.dumps([str(path.resolve()), stat.st_size, stat.st_mtime_ns]).encode()).hexdigest()
    known = memory / key
    if known.exists() and len(text := known.read_text(encoding="utf-8")) == hashlib.sha256().digest_size * 2:
        return text
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            check()
            digest.update(chunk)
    memory.mkdir(parents=True, exist_ok=True)
    known.write_text(digest.hexdigest(), encoding="utf-8")
    return digest.hexdigest()
