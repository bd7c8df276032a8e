"""The bundle of a measured run, a folder on disk: written completely or not at all, and read back equal.

    <bundles>/<job_id>/<run_id>/run.json, requests.parquet, telemetry.parquet, engine.log

A bundle is written under a hidden temporary name, every file and the folder are fsynced, then it is renamed, so that a
reader sees all of it or nothing. It is never changed afterwards.
"""

from __future__ import annotations

import contextlib
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pydantic import BaseModel, ValidationError

from lab.errors import BundleError
from lab.metrics.record_columns import record_schema, records_table
from lab.metrics.records import (
    BUNDLE_FORMAT_VERSION,
    EngineLog,
    RequestRecord,
    RunRecord,
    TelemetrySample,
    record_fields,
)
from lab.metrics.request_table import RequestTable
from warehouse.bundles.engine_log import read_engine_log
from warehouse.bundles.pending import fsync, mark_pending
from warehouse.bundles.provenance import read_provenance
from warehouse.bundles.record_file import read_columns, read_records, write_columns
from warehouse.bundles.stored_run import READABLE_FORMAT_VERSIONS, run_from_json

RUN_FILE, REQUESTS_FILE, TELEMETRY_FILE, LOG_FILE = "run.json", "requests.parquet", "telemetry.parquet", "engine.log"
_TEMPORARY = ".writing-"
#: A bundle that is still unfinished after this long belongs to a killed process.
_LEFT_BEHIND_S = 24 * 3600.0


def _schema(record: type[RequestRecord | TelemetrySample], version: int) -> pa.Schema:
    """Return the Parquet schema of the records in this version of the format."""
    declared = record_fields(record)
    return pa.schema([field for field in record_schema(record) if declared[field.name].since <= version])


_REQUESTS_SCHEMAS = {version: _schema(RequestRecord, version) for version in READABLE_FORMAT_VERSIONS}
_TELEMETRY_SCHEMAS = {version: _schema(TelemetrySample, version) for version in READABLE_FORMAT_VERSIONS}


class _FormatVersion(BaseModel):
    """The one field of `run.json` that is read first: all others depend on it."""

    format_version: int


@dataclass(frozen=True)
class Bundle:
    """One measured run, as read from its folder."""

    folder: Path
    run: RunRecord
    requests: RequestTable
    telemetry: tuple[TelemetrySample, ...]


def bundle_folder(root: Path, job_id: str, run_id: str) -> Path:
    return root / job_id / run_id


def write_bundle(
    root: Path,
    run: RunRecord,
    requests: Sequence[RequestRecord],
    telemetry: Sequence[TelemetrySample],
    log: Path | None,
) -> Path:
    """Write the bundle of `run` and return its folder; an existing bundle of the same id is left unchanged.

    The window's positions in `run` refer to the whole `log`; in the bundle they refer to its stored part.
    Raises OSError (a full disk, for example) and leaves nothing of the bundle then.
    """

    def fill(writing: Path) -> None:
        part = None if log is None else read_engine_log(log, run.log_begin_bytes, run.log_end_bytes)
        (writing / LOG_FILE).write_bytes(part.content if part else b"")
        positions = {"log_begin_bytes": part.begin_bytes, "log_end_bytes": part.end_bytes} if part else {}
        record = run.model_copy(update=positions).model_dump_json(indent=1)
        (writing / RUN_FILE).write_text(f"{record}\n", encoding="utf-8")
        write_columns(writing / REQUESTS_FILE, records_table(requests, _REQUESTS_SCHEMAS[BUNDLE_FORMAT_VERSION]))
        write_columns(writing / TELEMETRY_FILE, records_table(telemetry, _TELEMETRY_SCHEMAS[BUNDLE_FORMAT_VERSION]))

    final = bundle_folder(root, run.job_id, run.run_id)
    write_atomically({final: fill})
    return final


def write_atomically(bundles: Mapping[Path, Callable[[Path], None]], *, is_stored: bool = False) -> None:
    """Write several bundles, each filled by its function: all of them, or none of the new ones and OSError.

    Existing folders are left unchanged, because a bundle never changes. `is_stored`: they come from the object store.
    """
    staged: dict[Path, Path] = {}
    try:
        for final, fill in bundles.items():
            if final.exists():
                continue
            _prepare_folder(final.parent)
            staged[final] = writing = final.with_name(f"{_TEMPORARY}{final.name}-{uuid.uuid4().hex[:8]}")
            writing.mkdir()
            fill(writing)
            for path in (*writing.rglob("*"), writing):
                fsync(path)
        for final, writing in staged.items():
            if not is_stored:
                mark_pending(final.parents[1], f"{final.parent.name}/{final.name}")
            _publish(writing, final)
    finally:
        for writing in staged.values():
            shutil.rmtree(writing, ignore_errors=True)


def _prepare_folder(of_job: Path) -> None:
    """Make the folder of a job, safe from a power cut, and remove the leftovers of killed workers from it."""
    is_new = not of_job.exists()
    of_job.mkdir(parents=True, exist_ok=True)
    if is_new:
        fsync(of_job.parent)
    for left in of_job.glob(f"{_TEMPORARY}*"):
        with contextlib.suppress(FileNotFoundError):  # another worker removes it too
            if time.time() - left.stat().st_mtime > _LEFT_BEHIND_S:
                shutil.rmtree(left, ignore_errors=True)


def _publish(writing: Path, final: Path) -> None:
    try:
        writing.rename(final)
    except OSError:
        if not final.exists():  # if it exists, another worker finished the same run a moment earlier
            raise
    fsync(final.parent)


def read_bundle(folder: Path) -> Bundle:
    """Read one bundle. Raises BundleError for a folder that is incomplete or of another format."""
    run = read_run(folder)
    requests = RequestTable(read_columns(folder / REQUESTS_FILE, _REQUESTS_SCHEMAS[run.format_version]))
    telemetry = read_records(folder / TELEMETRY_FILE, TelemetrySample, _TELEMETRY_SCHEMAS[run.format_version])
    return Bundle(folder, run, requests, telemetry)


def read_run(folder: Path) -> RunRecord:
    """Read `run.json` alone; an imported run has the ids that it has here. Raises BundleError."""
    try:
        content = (folder / RUN_FILE).read_bytes()
        run = run_from_json(readable_version(folder, content, READABLE_FORMAT_VERSIONS), content)
    except (OSError, ValidationError) as error:
        raise BundleError(f"{folder / RUN_FILE} cannot be read: {error}") from None
    origin = read_provenance(folder)
    if origin is None:
        return run
    return run.model_copy(update={name: getattr(origin, name) for name in ("job_id", "run_id", "study_id")})


def readable_version(folder: Path, content: bytes, readable: Sequence[int]) -> int:
    """Return the version in the content of a `run.json`. Raises BundleError unless it is one of `readable`,
    ValidationError if there is none.
    """
    version = _FormatVersion.model_validate_json(content).format_version
    if version in readable:
        return version
    remedy = "use the Drafthouse that wrote it, or a newer one"
    if version < readable[0]:
        remedy = "with the Drafthouse that wrote it, export the study to a .json file, which can be imported here"
    versions = ", ".join(map(str, readable))
    raise BundleError(f"{folder} has bundle format {version}; this Drafthouse reads {versions}: {remedy}")


def read_log(folder: Path, run: RunRecord) -> EngineLog | None:
    """Return the part of the engine log that belongs to the run; None if it is empty. Raises BundleError."""
    try:
        return read_engine_log(folder / LOG_FILE, run.log_begin_bytes, run.log_end_bytes)
    except OSError as error:
        raise BundleError(f"{folder / LOG_FILE} cannot be read: {error}") from None


def is_whole(folder: Path) -> bool:
    """Return whether every file of a measured run exists. On a network file system they may appear after their
    folder.
    """
    return all((folder / name).exists() for name in (RUN_FILE, REQUESTS_FILE, TELEMETRY_FILE, LOG_FILE))


def find_bundles(root: Path) -> Iterator[Path]:
    """Yield every complete bundle under `root`, oldest job first; folders still being written are skipped."""
    for run_file in sorted(root.glob(f"*/*/{RUN_FILE}")):
        if not is_being_written(run_file.parent.name):
            yield run_file.parent


def is_being_written(name: str) -> bool:
    """Return whether a folder of this name is an incomplete or abandoned bundle."""
    return name.startswith(_TEMPORARY)
