"""Resolves a workload's dataset on this host: one of Drafthouse's own, a registered file, or a path.

Registered files are copied into this Drafthouse's home. In the datasets folder `<name>.json` is the entry,
`files/<sha256>` the file. The entry is replaced atomically once the file is on disk: a name always means a whole,
checked file, or nothing.
"""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import functools
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from host.os_errors import is_of_host
from host.settings import Settings
from jobs.datasets import formats
from jobs.datasets.catalogue import CUSTOM, DATASETS, SHIPPED, Dataset
from jobs.datasets.files import DatasetFile, Stock, read_file
from jobs.engines.models import expanded
from lab.errors import INSTALL_COMMAND, HostError, UserError
from lab.study.model_base import Frozen

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
_FILE_SUFFIXES = (".jsonl", ".json", ".csv", ".parquet", ".txt", ".gz")


class Registered(Frozen):
    """The entry of a registered file."""

    name: str
    format: str  # the dataset whose columns it has, or custom
    original_name: str
    sha256: str
    size_bytes: int
    stock: Stock
    added_at: str  # UTC, ISO 8601


def add(folder: Path, name: str, file: Path, *, replace: bool = False) -> Registered:
    """Check the whole file, copy it and register it under `name`.

    Raises UserError naming the invalid line, or that another file has this name already, unless it is to `replace` it;
    then nothing has changed.
    """
    dataset = _format_for(name)
    assert dataset.read_row is not None  # noqa: S101 - only datasets with a file can be registered
    with _alone(folder), _copy(folder, file) as copy:
        read = read_file(copy, dataset.read_row, str(file))  # check the copy: it is the file that stays
        entry = _entry(name, dataset, file, read, copy.stat().st_size)
        before = registered(folder, name)
        if before is not None and before.sha256 != entry.sha256 and not replace:
            raise UserError(
                f"{name} is registered already, as another file ({before.original_name} with {before.stock.rows:,} "
                "rows): use another name, or --replace (replace=true, or Replace on the page)"
            )
        copy.replace(_copy_path(folder, entry))
        _write(folder, entry)
        _forget_file(folder, before)
    return entry


def remove(folder: Path, name: str) -> None:
    """Unregister the name and delete the copy. Raises UserError if nothing is registered under it."""
    with _alone(folder):
        entry = registered(folder, name)
        if entry is None:
            names = ", ".join(other.name for other in all_registered(folder)) or "none"
            raise UserError(f"no dataset is registered as {name!r}; registered are: {names}")
        _manifest(folder, name).unlink(missing_ok=True)
        _forget_file(folder, entry)


def registered(folder: Path, name: str) -> Registered | None:
    """Return the entry of the name; None if there is none."""
    if not NAME.fullmatch(name):
        return None
    path = _manifest(folder, name)
    try:
        return Registered.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        why = str(error).split("\n")[0]
        if is_of_host(error):
            raise HostError(f"{path} cannot be read ({why})") from None
        raise UserError(f"{path} cannot be read ({why}): delete it and register the dataset again") from None


def all_registered(folder: Path) -> list[Registered]:
    """Return all entries, sorted by name."""
    entries = (registered(folder, path.stem) for path in sorted(folder.glob("*.json")))
    return [entry for entry in entries if entry is not None]


def read_registered(folder: Path, entry: Registered) -> DatasetFile:
    """Read a registered file's rows. Raises UserError if the file is gone or has changed since."""
    dataset = DATASETS.get(entry.format, CUSTOM)
    assert dataset.read_row is not None  # noqa: S101 - only datasets with a file can be registered
    path = _copy_path(folder, entry)
    if not path.is_file():
        raise UserError(f"the file of dataset {entry.name} is gone ({path}): register it again")
    read = read_file(path, dataset.read_row, f"dataset {entry.name}")
    if read.sha256 != entry.sha256:
        raise UserError(f"{path} is not the file that was registered as dataset {entry.name}: register it again")
    return read


def _format_for(name: str) -> Dataset:
    """Return the dataset whose columns a file of this name must have. Raises UserError for a name that cannot be
    registered.
    """
    if not NAME.fullmatch(name):
        raise UserError(f"{name!r} is not a valid name for a dataset: use letters, digits, _ and -")
    dataset = DATASETS.get(name)
    if name == CUSTOM.name or (dataset is not None and not dataset.is_registered):
        raise UserError(f"{name} is one of Drafthouse's own datasets: register the file under another name")
    return dataset or CUSTOM


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock out other changes, and remove the leftovers of a killed process."""
    try:
        (folder / "files").mkdir(parents=True, exist_ok=True)
        with (folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in folder.glob(".incoming-*"):
                left.unlink()
            yield
    except OSError as error:
        raise UserError(f"{folder} cannot be written: {error}") from None


@contextlib.contextmanager
def _copy(folder: Path, file: Path) -> Iterator[Path]:
    """Copy the file to the disk where it will stay; delete the copy after the block unless it was moved."""
    try:
        source = expanded(str(file)).open("rb")
    except FileNotFoundError:
        raise UserError(f"{file}: there is no such file") from None
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    copy = folder / ".incoming-file"
    with source, copy.open("wb") as target:
        shutil.copyfileobj(source, target)
        target.flush()
        os.fsync(target.fileno())
    try:
        yield copy
    finally:
        copy.unlink(missing_ok=True)


def _entry(name: str, dataset: Dataset, file: Path, read: DatasetFile, size_bytes: int) -> Registered:
    return Registered(
        name=name,
        format=dataset.name,
        original_name=file.name,
        sha256=read.sha256,
        size_bytes=size_bytes,
        stock=read.stock,
        added_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _write(folder: Path, entry: Registered) -> None:
    written = folder / ".incoming-entry"
    with written.open("w", encoding="utf-8") as target:
        target.write(entry.model_dump_json(indent=1))
        target.flush()
        os.fsync(target.fileno())
    written.replace(_manifest(folder, entry.name))


def _forget_file(folder: Path, entry: Registered | None) -> None:
    """Delete an entry's file, unless another entry uses it too."""
    if entry is not None and entry.sha256 not in {other.sha256 for other in all_registered(folder)}:
        _copy_path(folder, entry).unlink(missing_ok=True)


def _manifest(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _copy_path(folder: Path, entry: Registered) -> Path:
    return folder / "files" / entry.sha256


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
        """Return the dataset's rows. Raises UserError if they cannot be read, or if the prompts are generated."""
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
    names = [*DATASETS, *(own.name for own in all_registered(settings.datasets))]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise UserError(
        f"there is no dataset {name!r}: {hint}`drafthouse datasets` lists them; give a file of your own by its path"
    )


def missing(dataset: Dataset) -> str:
    """Explain how to get a dataset whose file is not registered here."""
    sample = f", or try it with {dataset.name}_sample" if f"{dataset.name}_sample" in DATASETS else ""
    return (
        f"dataset {dataset.name} is not on this host: {dataset.how_to_get} ({dataset.source}; {dataset.licence}), then "
        f"`drafthouse datasets add {dataset.name} FILE`{sample}"
    )


def dataset_path(name: str) -> Path | None:
    """Return the file if a dataset's name is a path, whether it exists or not; None if the name is not a
    path. No file is read.
    """
    path = expanded(name)
    if name in DATASETS:
        return None
    return path.absolute() if "/" in name or path.suffix in _FILE_SUFFIXES else None


def _read_reference(models_dir: Path) -> DatasetFile:
    """Read all categories, one file each. Raises UserError if the reference models are not prepared yet."""
    folder = models_dir / "prompts"
    paths = sorted(folder.glob("*.jsonl"))
    if not paths:
        raise UserError(f"{folder} holds no prompts: run `{INSTALL_COMMAND}`")
    files = [read_file(path, formats.custom_row, f"dataset {path}") for path in paths]
    digest = hashlib.sha256(
        "".join(f"{path.name} {file.sha256}\n" for path, file in zip(paths, files, strict=True)).encode()
    )
    return DatasetFile(tuple(row for file in files for row in file.rows), 0, digest.hexdigest())
