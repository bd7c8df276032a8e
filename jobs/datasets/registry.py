"""The files that the user registered: copied beside the state of this Drafthouse, with their SHA-256.

`datasets/<name>.json` says what is registered, `datasets/files/<sha256>` is the file. The first is replaced in one
step after the second is on disk: a name means a whole, checked file at any moment, or nothing.
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
from jobs.datasets.formats.files import DatasetFile, Stock, read_file
from lab.errors import UserError
from lab.study.model_base import Frozen
from warehouse.settings import Settings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class Registered(Frozen):
    """What is known of a registered file."""

    name: str
    format: str  # whose columns it has: the name of a dataset, or custom
    original_name: str
    sha256: str
    size_bytes: int
    stock: Stock
    added_at: str  # UTC, ISO 8601


def add(settings: Settings, name: str, file: Path) -> Registered:
    """Check the whole file, copy it and register it under `name`, in place of what was there.

    Raises UserError naming the line that is wrong; then nothing has changed.
    """
    dataset = _format_for(name)
    assert dataset.read_row is not None  # noqa: S101 - only datasets with a file can be registered
    with _alone(settings), _copy(settings, file) as copy:
        read = read_file(copy, dataset.read_row, str(file))  # what is checked is what is kept
        entry = _entry(name, dataset, file, read, copy.stat().st_size)
        before = registered(settings, name)
        copy.replace(_kept(settings, entry))
        _write(settings, entry)
        _forget_file(settings, before)
    return entry


def remove_dataset(settings: Settings, name: str) -> None:
    """Raises UserError when nothing is registered under the name."""
    with _alone(settings):
        entry = registered(settings, name)
        if entry is None:
            there = ", ".join(each.name for each in all_registered(settings)) or "none"
            raise UserError(f"no dataset is registered as {name!r}; registered are: {there}")
        _manifest(settings, name).unlink(missing_ok=True)
        _forget_file(settings, entry)


def registered(settings: Settings, name: str) -> Registered | None:
    """What is registered under the name; None when nothing is."""
    if not _NAME.fullmatch(name):
        return None
    path = _manifest(settings, name)
    try:
        return Registered.model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        why = str(error).split("\n")[0]
        raise UserError(f"{path} cannot be read ({why}): delete it and register the dataset again") from None


def all_registered(settings: Settings) -> list[Registered]:
    """In the order of their names."""
    found = (registered(settings, path.stem) for path in sorted(settings.datasets.glob("*.json")))
    return [entry for entry in found if entry is not None]


def read_registered(settings: Settings, entry: Registered) -> DatasetFile:
    """Its rows. Raises UserError when the file is gone or is not the one that was registered."""
    dataset = DATASETS.get(entry.format, CUSTOM)
    assert dataset.read_row is not None  # noqa: S101 - only datasets with a file can be registered
    path = _kept(settings, entry)
    if not path.is_file():
        raise UserError(f"the file of dataset {entry.name} is gone ({path}): register it again")
    read = read_file(path, dataset.read_row, f"dataset {entry.name}")
    if read.sha256 != entry.sha256:
        raise UserError(f"{path} is not the file that was registered as dataset {entry.name}: register it again")
    return read


def _format_for(name: str) -> Dataset:
    """Whose columns a file under this name must have. Raises UserError for a name that cannot be registered."""
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r} is no name for a dataset: use letters, digits, _ and -")
    dataset = DATASETS.get(name)
    if name == CUSTOM.name or (dataset is not None and not dataset.is_registered):
        raise UserError(f"{name} is a dataset of Drafthouse's own: register the file under another name")
    return dataset or CUSTOM


@contextlib.contextmanager
def _alone(settings: Settings) -> Iterator[None]:
    """One change at a time, and what a killed one left behind is removed."""
    try:
        (settings.datasets / "files").mkdir(parents=True, exist_ok=True)
        with (settings.datasets / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for left in settings.datasets.glob(".incoming-*"):
                left.unlink()
            yield
    except OSError as error:
        raise UserError(f"{settings.datasets} cannot be written: {error}") from None


@contextlib.contextmanager
def _copy(settings: Settings, file: Path) -> Iterator[Path]:
    """A copy of the file on the disk where it will be kept, gone after the block unless it was moved."""
    try:
        source = file.expanduser().open("rb")
    except FileNotFoundError:
        raise UserError(f"{file}: there is no such file") from None
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error}") from None
    copy = settings.datasets / ".incoming-file"
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


def _write(settings: Settings, entry: Registered) -> None:
    written = settings.datasets / ".incoming-entry"
    with written.open("w", encoding="utf-8") as target:
        target.write(entry.model_dump_json(indent=1))
        target.flush()
        os.fsync(target.fileno())
    written.replace(_manifest(settings, entry.name))


def _forget_file(settings: Settings, entry: Registered | None) -> None:
    """Its file, unless another name has the same one."""
    if entry is not None and entry.sha256 not in {other.sha256 for other in all_registered(settings)}:
        _kept(settings, entry).unlink(missing_ok=True)


def _manifest(settings: Settings, name: str) -> Path:
    return settings.datasets / f"{name}.json"


def _kept(settings: Settings, entry: Registered) -> Path:
    return settings.datasets / "files" / entry.sha256
