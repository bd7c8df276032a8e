"""What a workload's dataset means on this host: one of Drafthouse's own, a registered file, or a path."""

from __future__ import annotations

import difflib
import functools
import hashlib
from dataclasses import dataclass
from pathlib import Path

from jobs.datasets import formats
from jobs.datasets.catalogue import CUSTOM, DATASETS, SHIPPED, Dataset
from jobs.datasets.files import DatasetFile, Stock, read_file
from jobs.datasets.registry import Registered, all_registered, read_registered, registered
from lab.errors import UserError
from warehouse.settings import Settings

_FILE_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".txt")


@dataclass(frozen=True)
class ResolvedDataset:
    """A dataset that can be read here. `entry` is set for a registered file, `path` for a file given by its path.

    `registry` is the folder of registered files, `models_dir` that of the models, where the reference prompts lie.
    """

    dataset: Dataset
    registry: Path
    models_dir: Path
    entry: Registered | None = None
    path: Path | None = None

    def read(self) -> DatasetFile:
        """Return its rows. Raises UserError if they cannot be read, or if the prompts are generated."""
        if self.entry is not None:
            return read_registered(self.registry, self.entry)
        if self.dataset.name == "reference":
            return _read_reference(self.models_dir)
        if self.dataset.read_row is None:
            raise UserError(f"dataset {self.dataset.name} is generated for each study: there is no file to read")
        path = self.path or SHIPPED / (self.dataset.shipped or "")
        return read_file(path, self.dataset.read_row, f"dataset {self.path or self.dataset.name}")

    def stock(self) -> Stock:
        """Summarise what the file holds; a registered file is not read for it. Raises UserError like `read`."""
        return self.entry.stock if self.entry is not None else self.read().stock


def resolve(settings: Settings, name: str) -> ResolvedDataset:
    """Resolve the name of a dataset. Raises UserError if there is none, saying where to get the file."""
    resolved = functools.partial(ResolvedDataset, registry=settings.datasets, models_dir=settings.models_dir)
    dataset = DATASETS.get(name)
    if dataset is not None and not dataset.is_registered:
        return resolved(dataset)
    if (entry := registered(settings.datasets, name)) is not None:
        return resolved(DATASETS.get(entry.format, CUSTOM), entry=entry)
    if dataset is not None:
        raise UserError(missing(dataset))
    if (path := dataset_path(name)) is not None:
        return resolved(CUSTOM, path=path)
    known = [*DATASETS, *(each.name for each in all_registered(settings.datasets))]
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise UserError(
        f"there is no dataset {name!r}: {hint}`drafthouse datasets` lists them; give a file of your own by its path"
    )


def missing(dataset: Dataset) -> str:
    """Explain how to get a dataset whose file is not registered here."""
    return (
        f"dataset {dataset.name} is not on this host: {dataset.how_to_get} ({dataset.source}; {dataset.licence}), then "
        f"`drafthouse datasets add {dataset.name} FILE`, or try it with {dataset.name}_sample"
    )


def dataset_path(name: str) -> Path | None:
    """Return the file that a dataset's name is the path of, whether it exists or not; None for a name that is not a
    path.
    """
    path = Path(name).expanduser()
    if name in DATASETS:
        return None
    return path.absolute() if "/" in name or path.suffix in _FILE_SUFFIXES or path.is_file() else None


def _read_reference(models_dir: Path) -> DatasetFile:
    """Read all categories, one file each. Raises UserError if the reference models are not prepared yet."""
    folder = models_dir / "prompts"
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise UserError(f"{folder} holds no prompts: run `make models`")
    files = [read_file(path, formats.custom_row, f"dataset {path}") for path in paths]
    digest = hashlib.sha256(
        "".join(f"{path.name} {file.sha256}\n" for path, file in zip(paths, files, strict=True)).encode()
    )
    return DatasetFile(tuple(row for file in files for row in file.rows), 0, digest.hexdigest())
