"""Copying runs from a folder that another Drafthouse exported: as imported results, or as measured ones.

The folder may come from a stranger. Only files named in the manifest are read, and only if their digests match; ids
must be plain names, and every bundle must be readable, within a memory limit, before any is written. The
sender's ids are not used here: a run gets an id of our own, in a job of its own (see `provenance`). An administrator
may restore runs as measured ones with their ids, to move them from one home to another.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pyarrow as pa
from pydantic import ValidationError

from host.files import sha256_of
from interchange.files import printable
from lab.errors import BundleError, ForeignFileError
from warehouse.bundles.imported_bundle import SOURCE_FOLDER, is_imported, read_imported
from warehouse.bundles.judgements import Judgement, write_judgement
from warehouse.bundles.provenance import PROVENANCE_FILE, Provenance, provenance_of
from warehouse.bundles.run_bundle import (
    LOG_FILE,
    REQUESTS_FILE,
    RUN_FILE,
    TELEMETRY_FILE,
    bundle_folder,
    read_bundle,
    write_atomically,
)
from warehouse.bundles.table_sizes import MAX_TABLE_BYTES, table_sizes

#: The file that lists what an export has, and its format.
MANIFEST, MANIFEST_FORMAT, MANIFEST_VERSION = "drafthouse-export.json", "drafthouse export", 1
#: The folder of stored verdicts in an export.
VERDICTS = "verdicts"
#: Limits of one file of a bundle, of its run.json, which becomes one row, and of an engine's log, which is cut.
MAX_FILE_BYTES, MAX_RUN_BYTES, MAX_LOG_BYTES = 512 * 2**20, 16 * 2**20, 64 * 2**20
_MAX_MANIFEST_BYTES = 64 * 2**20
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_LARGEST = {RUN_FILE: MAX_RUN_BYTES, LOG_FILE: MAX_LOG_BYTES}
_NAMES = {RUN_FILE, REQUESTS_FILE, TELEMETRY_FILE, LOG_FILE, PROVENANCE_FILE}

Content = dict[PurePosixPath, Path]


@dataclass(frozen=True)
class Restored:
    """The jobs and ids that an export's runs have here, the ids of runs that were not stored before, and what these
    take in memory.
    """

    jobs: tuple[str, ...]
    run_ids: tuple[str, ...]
    new_run_ids: tuple[str, ...]
    size_bytes: int


@dataclass(frozen=True)
class _Run:
    """A run of an export: where it goes, its files, and where it came from if it is not restored as it is."""

    job_id: str
    run_id: str
    content: Content
    provenance: Provenance | None = None


def is_export(folder: Path) -> bool:
    return folder.is_dir() and (folder / MANIFEST).is_file()


def restore_bundles(root: Path, folder: Path, importer: str, refuse_more: Callable[[int], None]) -> Restored:
    """Copy every bundle of the export that is missing under `root`, as imported by this person: all or none.

    `refuse_more` is called with the size of the new runs so far, and may raise. A run that exists with the same files
    under the same ids stays as it is. Raises ForeignFileError for a damaged or invalid export, OSError if the disk is
    full.
    """
    runs = []
    for (job_id, run_id), content in _bundles(folder).items():
        digests = {str(inner): sha256_of(path) for inner, path in content.items() if inner.name != PROVENANCE_FILE}
        if _is_here(bundle_folder(root, job_id, run_id), digests):
            runs.append(_Run(job_id, run_id, content))
            continue
        origin = provenance_of(importer, job_id, run_id, digests)
        runs.append(_Run(origin.job_id, origin.run_id, content, origin))
    new = _new(root, runs)
    size_bytes = _size_bytes(folder, new, refuse_more)
    return _written(root, folder, runs, new, size_bytes)


def restore_as_measured(root: Path, folder: Path, refuse_jobs: Callable[[set[str]], None]) -> Restored:
    """Copy every bundle of the export that is missing under `root` unchanged, with its ids: all or none; then the
    verdicts that were stored when their studies ended.

    `refuse_jobs` is called with the jobs that would get runs, and may raise. Raises like `restore_bundles`.
    """
    runs = [_Run(job_id, run_id, content) for (job_id, run_id), content in _bundles(folder).items()]
    new = _new(root, runs)
    refuse_jobs({run.job_id for run in new})
    verdicts = _verdicts(folder, {run.job_id for run in runs})
    size_bytes = sum(path.stat().st_size for run in new for path in run.content.values())
    restored = _written(root, folder, runs, new, size_bytes)
    for judgement in verdicts:
        write_judgement(root, judgement)
    return restored


def _verdicts(folder: Path, jobs: set[str]) -> list[Judgement]:
    """Return the judgements of these jobs in the export."""
    files = _files(folder, VERDICTS).values()
    try:
        found = [Judgement.model_validate_json(path.read_bytes()) for path in files]
    except ValidationError as error:
        raise _error(folder, f"a stored verdict cannot be read: {str(error).splitlines()[0]}") from None
    if strange := [printable(judgement.job_id) for judgement in found if judgement.job_id not in jobs]:
        raise _error(folder, f"it has a verdict on {strange[0]}, but no run of that job")
    return found


def _new(root: Path, runs: Iterable[_Run]) -> list[_Run]:
    return [run for run in runs if not bundle_folder(root, run.job_id, run.run_id).exists()]


def _is_here(bundle: Path, digests: Mapping[str, str]) -> bool:
    return bundle.is_dir() and all(
        (bundle / inner).is_file() and sha256_of(bundle / inner) == digest for inner, digest in digests.items()
    )


def _written(root: Path, folder: Path, runs: Sequence[_Run], new: Sequence[_Run], size_bytes: int) -> Restored:
    for run in new:
        _check(folder, run)
    write_atomically({bundle_folder(root, run.job_id, run.run_id): _copier(run) for run in new})
    jobs = dict.fromkeys(run.job_id for run in runs)
    return Restored(tuple(jobs), tuple(run.run_id for run in runs), tuple(run.run_id for run in new), size_bytes)


def _bundles(folder: Path) -> dict[tuple[str, str], Content]:
    """Return the files of each bundle by its job and run in the export."""
    bundles: dict[tuple[str, str], Content] = {}
    for name, path in _files(folder, "bundles").items():
        job_id, run_id, inner = _split(folder, name)
        bundles.setdefault((job_id, run_id), {})[inner] = path
    if not bundles:
        raise _error(folder, "it contains no run")
    return bundles


def _files(folder: Path, within: str) -> dict[str, Path]:
    """Return the files within a folder of the export, by their names in the manifest, after checking their digests."""
    digests = _digests(folder)
    files: dict[str, Path] = {}
    for name, digest in digests.items():
        if not name.startswith(f"{within}/"):
            continue
        path, parts = folder / name, PurePosixPath(name).parts
        if ".." in parts or any(folder.joinpath(*parts[:end]).is_symlink() for end in range(1, len(parts) + 1)):
            raise _error(folder, f"{printable(name)} is not a valid path in an export")
        if not path.is_file() or path.stat().st_size > _LARGEST.get(path.name, MAX_FILE_BYTES):
            raise _error(folder, f"{printable(name)} is missing or larger than a bundle's file can be")
        if sha256_of(path) != digest:
            raise _error(folder, f"{printable(name)} was changed after the export: its digest differs")
        files[name] = path
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


def _size_bytes(folder: Path, runs: Sequence[_Run], refuse_more: Callable[[int], None]) -> int:
    """Return the size of the runs' tables once read. Raises ForeignFileError if one of them is too large."""
    paths = [path for run in runs for path in run.content.values()]
    tables = [path for path in paths if path.suffix == ".parquet"]
    size_bytes = sum(path.stat().st_size for path in paths)
    try:
        for path, in_memory_bytes in zip(tables, table_sizes(tables, MAX_TABLE_BYTES), strict=True):
            size_bytes += max(0, in_memory_bytes - path.stat().st_size)
            refuse_more(size_bytes)
    except BundleError as error:
        raise _error(folder, str(error)) from error
    return size_bytes


def _check(folder: Path, run: _Run) -> None:
    """Raise ForeignFileError unless the bundle can be read and is the run that its path names."""
    bundle = next(path.parents[len(inner.parts) - 1] for inner, path in run.content.items())
    job_id, run_id = bundle.parent.name, bundle.name
    try:
        present = {PurePosixPath(path.relative_to(bundle)) for path in bundle.rglob("*") if not path.is_dir()}
        if present != set(run.content):
            raise _error(folder, f"{job_id}/{run_id} does not have the files that its manifest lists")
        if is_imported(bundle):
            record = read_imported(bundle)
            ids = (record.job_id, record.run.run_id)
        else:
            measured = read_bundle(bundle).run
            ids = (measured.job_id, measured.run_id)
    except (BundleError, ValueError, TypeError, pa.ArrowException) as error:
        raise _error(folder, f"{job_id}/{run_id}: {str(error).splitlines()[0]}") from error
    if ids != (job_id, run_id):
        raise _error(folder, f"{job_id}/{run_id} holds another run: {printable('/'.join(ids))}")


def _copier(run: _Run) -> Callable[[Path], None]:
    def fill(writing: Path) -> None:
        for inner, path in run.content.items():
            target = writing / inner
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, target)
        if run.provenance is not None:
            (writing / PROVENANCE_FILE).write_text(run.provenance.model_dump_json(indent=1) + "\n", encoding="utf-8")

    return fill


def _error(folder: Path, reason: str) -> ForeignFileError:
    return ForeignFileError(f"{printable(folder.as_posix())}: {reason}")
