"""The files that the user registered: copied into this Drafthouse's home, with their SHA-256.

In the datasets folder `<name>.json` is the entry, `files/<sha256>` the file. The entry is replaced atomically once the
file is on disk: a name always means a whole, checked file, or nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from jobs.datasets.catalogue import CUSTOM, DATASETS, Dataset
from jobs.datasets.files import DatasetFile, Stock, read_file
from lab.errors import UserError
from lab.study.model_base import Frozen

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class Registered(Frozen):
    """The entry of a registered file."""

    name: str
    format: str  # whose columns it has: the name of a dataset, or custom
    original_name: str
    sha256: str
    size_bytes: int
    stock: Stock
    added_at: str  # UTC, ISO 8601


def add(folder: Path, name: str, file: Path) -> Registered:
    """Check the whole file, copy it and register it under `name`, replacing what was registered there.

    Raises UserError naming the invalid line; then nothing has changed.
    """
    dataset = _format_for(name)
    assert dataset.read_row is not None  # noqa: S101 - only datasets with a file can be registered
    with _alone(folder), _copy(folder, file) as copy:
        read = read_file(copy, dataset.read_row, str(file))  # check the copy: it is the file that stays
        entry = _entry(name, dataset, file, read, copy.stat().st_size)
        before = registered(folder, name)
        copy.replace(_kept(folder, entry))
        _write(folder, entry)
        _forget_file(folder, before)
    return entry


def remove_dataset(folder: Path, name: str) -> None:
    """Unregister the name and delete the copy. Raises UserError if nothing is registered under it."""
    with _alone(folder):
        entry = registered(folder, name)
        if entry is None:
            there = ", ".join(each.name for each in all_registered(folder)) or "none"
            raise UserError(f"no dataset is registered as {name!r}; registered are: {there}")
        _manifest(folder, name).unlink(missing_ok=True)
        _forget_file(folder, entry)


def registered(folder: Path, name: str) -> Registered | None:
    """Return the entry of the name; None if there is none."""
    if not _NAME.fullmatch(name):
        return None
    path = _manifest(folder, name)
    try:
        return Registered.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        why = str(error).split("\n")[0]
        raise UserError(f"{path} cannot be read ({why}): delete it and register the dataset again") from None


def all_registered(folder: Path) -> list[Registered]:
    """Return all entries, sorted by name."""
    found = (registered(folder, path.stem) for path in sorted(folder.glob("*.json")))
    return [entry for entry in found if entry is not None]


def read_registered(folder: Path, entry: Registered) -> DatasetFile:
    """Read its rows. Raises UserError if the file is gone or is not the one that was registered."""
    dataset = DATASETS.get(entry.format, CUSTOM)
    assert dataset.read_row is not None  # noqa: S101 - only datasets with a file can be registered
    path = _kept(folder, entry)
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
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} is not a valid name for a dataset: use letters, digits, _ and -")
    dataset = DATASETS.get(name)
    if name == CUSTOM.name or (dataset is not None and not dataset.is_registered):
        raise UserError(f"{name} is one of Drafthouse's own datasets: register the file under another name")
    return dataset or CUSTOM


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock out other changes, and remove what a killed process left behind."""
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
    """A copy of the file on the disk where it will stay; deleted after the block unless it was moved."""
    try:
        source = file.expanduser().open("rb")
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
    """Delete its file, unless another entry uses the same one."""
    if entry is not None and entry.sha256 not in {other.sha256 for other in all_registered(folder)}:
        _kept(folder, entry).unlink(missing_ok=True)


def _manifest(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _kept(folder: Path, entry: Registered) -> Path:
    return folder / "files" / entry.sha256
