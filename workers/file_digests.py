"""Digests of the files that a study names: weights and datasets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from host.settings import Settings
from jobs.datasets.listing import dataset_digest
from jobs.engines.models import local_folder
from lab.study import Study
from lab.study.cell_ids import Contents

_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_CHUNK_BYTES = 1 << 22


def study_contents(settings: Settings, study: Study, check: Callable[[], None]) -> Contents:
    """Return the digests of the study's target, draft models and datasets; None for what has no file.

    `check` is called often, to raise if the job must stop. Raises UserError for a dataset that cannot be read.
    """
    drafts = [arm.speculation.model for arm in study.arms if arm.speculation is not None]
    models = {name for name in (study.target, *drafts) if name is not None}
    cache = settings.home / "engines" / "digests"
    return Contents(
        models={name: weights_digest(settings.models_dir, cache, name, check) for name in sorted(models)},
        datasets={workload.name: dataset_digest(settings, workload) for workload in study.workloads},
    )


def weights_digest(models_dir: Path, cache: Path, model: str, check: Callable[[], None]) -> str | None:
    """SHA-256 over the names and contents of a folder's weights; None for a hub name or a folder without weights.

    Cached in the folder `cache` by path, size and modification time. `check` is called often, to raise if the job must
    stop.
    """
    folder = local_folder(models_dir, model)
    files = sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS) if folder and folder.is_dir() else []
    if not files:
        return None
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.name}\0{_file_digest(cache, path, check)}\n".encode())
    return total.hexdigest()


def _file_digest(cache: Path, path: Path, check: Callable[[], None]) -> str:
    stat = path.stat()
    key = hashlib.sha256(json.dumps([str(path.resolve()), stat.st_size, stat.st_mtime_ns]).encode()).hexdigest()
    cached = cache / key
    if cached.exists() and len(text := cached.read_text(encoding="utf-8")) == hashlib.sha256().digest_size * 2:
        return text
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            check()
            digest.update(chunk)
    cache.mkdir(parents=True, exist_ok=True)
    cached.write_text(digest.hexdigest(), encoding="utf-8")
    return digest.hexdigest()
