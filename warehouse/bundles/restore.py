"""The other way: a folder that another Drafthouse exported, taken in with the same ids.

It may come from a stranger. Nothing is read but what the manifest names, with the digest that it names; ids must be
plain names, and each bundle must read before any is written.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq

from lab.errors import BundleError, ForeignFileError
from warehouse.bundles.export import MANIFEST, MANIFEST_FORMAT, MANIFEST_VERSION
from warehouse.bundles.imported_bundle import SOURCE_FOLDER, is_imported, read_imported
from warehouse.bundles.run_bundle import (
    LOG_FILE,
    REQUESTS_FILE,
    RUN_FILE,
    TELEMETRY_FILE,
    find_bundles,
    read_bundle,
    write_whole,
)
from warehouse.importers.files import printable

#: The most that one file of a bundle may have, as it lies there and (tables) unpacked.
LARGEST_FILE_BYTES, LARGEST_TABLE_BYTES = 512 * 2**20, 2**30
_LARGEST_MANIFEST_BYTES = 64 * 2**20
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_NAMES = {RUN_FILE, REQUESTS_FILE, TELEMETRY_FILE, LOG_FILE}


def is_export(folder: Path) -> bool:
    return folder.is_dir() and (folder / MANIFEST).is_file()


def take_in(root: Path, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Copy every bundle of the export that is not in `root` yet, all or none. Its run ids, and those that were new.

    Raises ForeignFileError for what is damaged or no export, OSError where the disk is full.
    """
    files = _files(folder)
    bundles: dict[tuple[str, str], dict[PurePosixPath, Path]] = {}
    for name, path in files.items():
        job_id, run_id, inner = _place(folder, name)
        bundles.setdefault((job_id, run_id), {})[inner] = path
    known = {bundle.name for bundle in find_bundles(root)}
    new = {key: content for key, content in bundles.items() if key[1] not in known}
    for (job_id, run_id), content in new.items():
        _check(folder, job_id, run_id, content)
    write_whole({root / job_id / run_id: _copier(content) for (job_id, run_id), content in new.items()})
    return tuple(run_id for _, run_id in bundles), tuple(run_id for _, run_id in new)


def _files(folder: Path) -> dict[str, Path]:
    """The files of bundles by their names in the manifest, each with the digest that stands there."""
    digests = _digests(folder)
    found: dict[str, Path] = {}
    for name, digest in digests.items():
        if not name.startswith("bundles/"):
            continue
        path, parts = folder / name, PurePosixPath(name).parts
        if ".." in parts or any(folder.joinpath(*parts[:end]).is_symlink() for end in range(1, len(parts) + 1)):
            raise _error(folder, f"{printable(name)} is no file of an export")
        if not path.is_file() or path.stat().st_size > LARGEST_FILE_BYTES:
            raise _error(folder, f"{printable(name)} is missing, or larger than any bundle's file")
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise _error(folder, f"{printable(name)} is not the file that was exported")
        found[name] = path
    if not found:
        raise _error(folder, "there is no run in it")
    return found


def _digests(folder: Path) -> Mapping[str, object]:
    path = folder / MANIFEST
    if path.stat().st_size > _LARGEST_MANIFEST_BYTES:
        raise _error(folder, f"{MANIFEST} is too large")
    try:
        told = json.loads(path.read_bytes())
    except (ValueError, RecursionError, OSError) as error:
        raise _error(folder, f"{MANIFEST} is no JSON") from error
    if not isinstance(told, dict) or told.get("format") != MANIFEST_FORMAT or not isinstance(told.get("files"), dict):
        raise _error(folder, f"{MANIFEST} is no manifest of an export")
    if told.get("version") != MANIFEST_VERSION:
        raise _error(folder, f"found version {told.get('version')!r}; supported is {MANIFEST_VERSION}")
    return dict(told["files"])


def _place(folder: Path, name: str) -> tuple[str, str, PurePosixPath]:
    """The job, the run and the name within its bundle."""
    parts = PurePosixPath(name).parts
    ids, inner = parts[1:3], PurePosixPath(*parts[3:])
    plain = len(parts) == 4 and inner.name in _NAMES
    source = len(parts) == 5 and parts[3] == SOURCE_FOLDER
    if not (plain or source) or not all(_ID.fullmatch(each) for each in (*ids, inner.name)):
        raise _error(folder, f"{printable(name)} is no file of a bundle")
    return ids[0], ids[1], inner


def _check(folder: Path, job_id: str, run_id: str, content: Mapping[PurePosixPath, Path]) -> None:
    """That it reads, and is the run that its place says."""
    try:
        for inner, path in content.items():
            if inner.suffix == ".parquet":
                _refuse_bomb(folder, path)
        place = folder / "bundles" / job_id / run_id
        there = {PurePosixPath(path.relative_to(place)) for path in place.rglob("*") if not path.is_dir()}
        if there != set(content):
            raise _error(folder, f"{job_id}/{run_id} has other files than its manifest names")
        if is_imported(place):
            record = read_imported(place).record
            named = (record.job_id, record.run.run_id)
        else:
            run = read_bundle(place).run
            named = (run.job_id, run.run_id)
    except (BundleError, ValueError, TypeError, pa.ArrowException) as error:
        raise _error(folder, f"{job_id}/{run_id}: {str(error).splitlines()[0]}") from error
    if named != (job_id, run_id):
        raise _error(folder, f"{job_id}/{run_id} holds another run: {printable('/'.join(named))}")


def _refuse_bomb(folder: Path, path: Path) -> None:
    metadata = pq.ParquetFile(path).metadata
    size = sum(metadata.row_group(place).total_byte_size for place in range(metadata.num_row_groups))
    if size > LARGEST_TABLE_BYTES or metadata.num_rows > 10_000_000:
        raise _error(folder, f"{path.name} would be larger than any bundle's table")


def _copier(content: Mapping[PurePosixPath, Path]) -> Callable[[Path], None]:
    def fill(writing: Path) -> None:
        for inner, path in content.items():
            target = writing / inner
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)

    return fill


def _error(folder: Path, why: str) -> ForeignFileError:
    return ForeignFileError(f"{printable(folder.as_posix())}: {why}")
