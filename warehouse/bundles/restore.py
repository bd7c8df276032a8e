"""Restoring runs, with their ids, from a folder that another Drafthouse exported.

The folder may come from a stranger. Only files named in the manifest are read, and only if their digests match; ids
must be plain names, and every bundle must be readable before any is written.
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
from warehouse.bundles.imported_bundle import SOURCE_FOLDER, is_imported, read_imported
from warehouse.bundles.run_bundle import (
    LOG_FILE,
    REQUESTS_FILE,
    RUN_FILE,
    TELEMETRY_FILE,
    find_bundles,
    read_bundle,
    write_atomically,
)
from warehouse.importers.files import printable

#: The file that lists what an export has, and its format.
MANIFEST, MANIFEST_FORMAT, MANIFEST_VERSION = "drafthouse-export.json", "drafthouse export", 1
#: Limits of one file of a bundle: its size, and for tables its size when decompressed.
MAX_FILE_BYTES, MAX_TABLE_BYTES = 512 * 2**20, 2**30
_MAX_MANIFEST_BYTES = 64 * 2**20
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_NAMES = {RUN_FILE, REQUESTS_FILE, TELEMETRY_FILE, LOG_FILE}


def is_export(folder: Path) -> bool:
    return folder.is_dir() and (folder / MANIFEST).is_file()


def restore_bundles(root: Path, folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Copy every bundle of the export that `root` lacks, all or none; return its run ids, and those that were new.

    Raises ForeignFileError for a damaged or invalid export, OSError if the disk is full.
    """
    files = _files(folder)
    bundles: dict[tuple[str, str], dict[PurePosixPath, Path]] = {}
    for name, path in files.items():
        job_id, run_id, inner = _split(folder, name)
        bundles.setdefault((job_id, run_id), {})[inner] = path
    stored = {bundle.name for bundle in find_bundles(root)}
    new = {key: content for key, content in bundles.items() if key[1] not in stored}
    for (job_id, run_id), content in new.items():
        _check(folder, job_id, run_id, content)
    write_atomically({root / job_id / run_id: _copier(content) for (job_id, run_id), content in new.items()})
    return tuple(run_id for _, run_id in bundles), tuple(run_id for _, run_id in new)


def _files(folder: Path) -> dict[str, Path]:
    """Return the files of bundles by their names in the manifest, after checking their digests."""
    digests = _digests(folder)
    files: dict[str, Path] = {}
    for name, digest in digests.items():
        if not name.startswith("bundles/"):
            continue
        path, parts = folder / name, PurePosixPath(name).parts
        if ".." in parts or any(folder.joinpath(*parts[:end]).is_symlink() for end in range(1, len(parts) + 1)):
            raise _error(folder, f"{printable(name)} is not a valid path in an export")
        if not path.is_file() or path.stat().st_size > MAX_FILE_BYTES:
            raise _error(folder, f"{printable(name)} is missing or larger than a bundle's file can be")
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise _error(folder, f"{printable(name)} was changed after the export: its digest differs")
        files[name] = path
    if not files:
        raise _error(folder, "it contains no run")
    return files


def _digests(folder: Path) -> Mapping[str, object]:
    path = folder / MANIFEST
    if path.stat().st_size > _MAX_MANIFEST_BYTES:
        raise _error(folder, f"{MANIFEST} is too large")
    try:
        manifest = json.loads(path.read_bytes())
    except (ValueError, RecursionError, OSError) as error:
        raise _error(folder, f"{MANIFEST} is not valid JSON") from error
    if not isinstance(manifest, dict) or manifest.get("format") != MANIFEST_FORMAT:
        raise _error(folder, f"{MANIFEST} is not the manifest of an export")
    if manifest.get("version") != MANIFEST_VERSION:
        version = manifest.get("version")
        remedy = f"this Drafthouse reads version {MANIFEST_VERSION}: use the one that wrote it, or a newer one"
        raise _error(folder, f"the export has version {version!r}; {remedy}")
    if not isinstance(manifest.get("files"), dict):
        raise _error(folder, f"{MANIFEST} lists no files")
    return dict(manifest["files"])


def _split(folder: Path, name: str) -> tuple[str, str, PurePosixPath]:
    """Split a path of the manifest into job id, run id and the path within the bundle."""
    parts = PurePosixPath(name).parts
    ids, inner = parts[1:3], PurePosixPath(*parts[3:])
    plain = len(parts) == 4 and inner.name in _NAMES
    source = len(parts) == 5 and parts[3] == SOURCE_FOLDER
    if not (plain or source) or not all(_ID.fullmatch(id_) for id_ in (*ids, inner.name)):
        raise _error(folder, f"{printable(name)} is not a file of a bundle")
    return ids[0], ids[1], inner


def _check(folder: Path, job_id: str, run_id: str, content: Mapping[PurePosixPath, Path]) -> None:
    """Raise ForeignFileError unless the bundle can be read and is the run that its path names."""
    try:
        for inner, path in content.items():
            if inner.suffix == ".parquet":
                _refuse_bomb(folder, path)
        bundle = folder / "bundles" / job_id / run_id
        present = {PurePosixPath(path.relative_to(bundle)) for path in bundle.rglob("*") if not path.is_dir()}
        if present != set(content):
            raise _error(folder, f"{job_id}/{run_id} does not have the files that its manifest lists")
        if is_imported(bundle):
            record = read_imported(bundle).record
            ids = (record.job_id, record.run.run_id)
        else:
            run = read_bundle(bundle).run
            ids = (run.job_id, run.run_id)
    except (BundleError, ValueError, TypeError, pa.ArrowException) as error:
        raise _error(folder, f"{job_id}/{run_id}: {str(error).splitlines()[0]}") from error
    if ids != (job_id, run_id):
        raise _error(folder, f"{job_id}/{run_id} holds another run: {printable('/'.join(ids))}")


def _refuse_bomb(folder: Path, path: Path) -> None:
    metadata = pq.ParquetFile(path).metadata
    size = sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))
    if size > MAX_TABLE_BYTES or metadata.num_rows > 10_000_000:
        raise _error(folder, f"{path.name} is larger, when decompressed, than a bundle's table can be")


def _copier(content: Mapping[PurePosixPath, Path]) -> Callable[[Path], None]:
    def fill(writing: Path) -> None:
        for inner, path in content.items():
            target = writing / inner
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)

    return fill


def _error(folder: Path, reason: str) -> ForeignFileError:
    return ForeignFileError(f"{printable(folder.as_posix())}: {reason}")
