"""The reference prompts: kinds of text that the reference pair was trained on, one file a category."""

from __future__ import annotations

import hashlib

from jobs.datasets.formats import custom
from jobs.datasets.formats.files import DatasetFile, read_file
from lab.errors import UserError
from warehouse.settings import Settings


def read(settings: Settings) -> DatasetFile:
    """All rows of all categories. Raises UserError when the reference models were not prepared yet."""
    folder = settings.models_dir / "prompts"
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise UserError(f"{folder} holds no prompts: run `make models`")
    files = [read_file(path, custom.row, f"dataset {path}") for path in paths]
    digest = hashlib.sha256(
        "".join(f"{path.name} {file.sha256}\n" for path, file in zip(paths, files, strict=True)).encode()
    )
    return DatasetFile(tuple(row for file in files for row in file.rows), 0, digest.hexdigest())
