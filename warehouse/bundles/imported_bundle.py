"""The bundle of an imported run, a folder beside those of measured runs and as immutable.

    <bundles>/<job_id>/<run_id>/run.json, source/<SHA-256 of a file>, and requests.parquet if the file has requests

The folder `source` distinguishes it from a measured run. It holds the original files, so that a later importer can read
more from them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from lab.errors import BundleError
from lab.study.cell_ids import digest
from lab.study.model_base import Frozen
from warehouse.bundles.imported_run import ImportedRequests, ImportedRun, SourceFile
from warehouse.bundles.provenance import JOB_PREFIX, LABELS, read_provenance
from warehouse.bundles.record_file import read_columns, read_parts, write_columns
from warehouse.bundles.run_bundle import (
    REQUESTS_FILE,
    RUN_FILE,
    bundle_folder,
    is_being_written,
    readable_version,
    write_atomically,
)

SOURCE_FOLDER = "source"
#: The readable formats of imported bundles, which have numbers of their own.
_READABLE_FORMAT_VERSIONS = (1,)
_JOB_DIGITS = 12
_SHA256 = re.compile(r"[0-9a-f]{64}")
#: Gives the content of files in pieces, by SHA-256.
Sources = Mapping[str, Callable[[], Iterable[bytes]]]


class ImportedRecord(Frozen):
    """`run.json` of an imported run. Its requests are in a file of their own, so `run.requests` is None in `run.json`.

    A job of imported runs holds the results of one tool for one target, or all results with the same label `study`.
    """

    origin: Literal["imported"] = "imported"
    format_version: Literal[1] = 1  # independent of the format of measured bundles
    job_id: str
    study_id: str
    study_name: str
    run: ImportedRun


def is_imported(folder: Path) -> bool:
    return (folder / SOURCE_FOLDER).is_dir()


def requests_bytes(folder: Path) -> int:
    """Return the size of the bundle's requests; 0 if it has none of its own."""
    path = folder / REQUESTS_FILE
    return path.stat().st_size if path.exists() else 0


def record_of(run: ImportedRun) -> ImportedRecord:
    """Return the record of a run; importing the same run again gives the same record."""
    target = run.columns["target"]
    study = run.labels.get("study") or f"{run.tool}: {target or 'a target without a name'}"
    study_id = digest({"tool": run.tool, "target": target, "study": study})
    job_id = f"{JOB_PREFIX}{study_id[:_JOB_DIGITS]}"
    return ImportedRecord(job_id=job_id, study_id=study_id, study_name=study, run=replace(run, requests=None))


def imported_jobs(root: Path) -> dict[str, str]:
    """Return the job of each imported run by its id, from the names of folders, without those of measured jobs."""
    jobs: dict[str, str] = {}
    for job in root.glob(f"{JOB_PREFIX}*"):
        with os.scandir(job) as entries:
            jobs |= {entry.name: job.name for entry in entries if not is_being_written(entry.name)}
    return jobs


def write_imported(root: Path, runs: Iterable[ImportedRun], sources: Sources) -> list[ImportedRecord]:
    """Write the missing bundles of the runs: all of them, or none. Raises OSError, or what a source raises."""
    stored = imported_jobs(root)
    new = {run.run_id: run for run in runs if run.run_id not in stored}
    records = {run_id: record_of(run) for run_id, run in new.items()}
    written: dict[str, Path] = {}
    fill = {
        bundle_folder(root, record.job_id, run_id): _filler(record, new[run_id], sources, written)
        for run_id, record in records.items()
    }
    write_atomically(fill)
    return list(records.values())


def _filler(
    record: ImportedRecord, run: ImportedRun, sources: Sources, written: dict[str, Path]
) -> Callable[[Path], None]:
    def fill(writing: Path) -> None:
        (writing / RUN_FILE).write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
        if run.requests is not None:
            write_columns(writing / REQUESTS_FILE, run.requests.arrow)
        (writing / SOURCE_FOLDER).mkdir()
        for source in (run.source, *run.companions):
            _write_source(writing / SOURCE_FOLDER / source.sha256, source, sources, written)

    return fill


def _write_source(path: Path, source: SourceFile, sources: Sources, written: dict[str, Path]) -> None:
    """Write a source file, or link to the copy in another bundle: a file of a hundred runs needs the space once."""
    if path.exists():
        return
    try:
        os.link(written[source.sha256], path)
    except (KeyError, OSError):
        with path.open("wb") as opened:
            opened.writelines(sources[source.sha256]())
        written[source.sha256] = path


def read_imported(folder: Path) -> ImportedRecord:
    """Read one bundle; its run has the requests. Raises BundleError for a folder that is incomplete or of another
    format.
    """
    record = read_record(folder)
    for source in (record.run.source, *record.run.companions):
        if not _SHA256.fullmatch(source.sha256) or not (folder / SOURCE_FOLDER / source.sha256).is_file():
            raise BundleError(f"{folder}: the file it was imported from is missing")
    path = folder / REQUESTS_FILE
    requests = ImportedRequests(read_columns(path, ImportedRequests.schema)) if path.exists() else None
    return record.model_copy(update={"run": replace(record.run, requests=requests)})


def known_of_all(completed: ImportedRequests) -> frozenset[str]:
    """Return the fields that every completed request records; none if no request completed."""
    names = ImportedRequests.schema.names if len(completed) else ()
    return frozenset(name for name in names if completed.known(name).all())


def read_known_of_all(folder: Path) -> frozenset[str] | None:
    """Return the same for a bundle, None if it has no requests, with few of its requests in memory at a time.

    Raises BundleError.
    """
    path = folder / REQUESTS_FILE
    if not path.exists():
        return None
    parts = map(ImportedRequests, read_parts(path))
    known = [known_of_all(part.completed) for part in parts if len(part.completed)]
    return frozenset.intersection(*known) if known else frozenset()


def read_record(folder: Path) -> ImportedRecord:
    """Read `run.json` alone; a run from another Drafthouse has the ids that it has here. Raises BundleError."""
    try:
        content = (folder / RUN_FILE).read_bytes()
        readable_version(folder, content, _READABLE_FORMAT_VERSIONS)
        record = ImportedRecord.model_validate_json(content)
    except (OSError, ValidationError) as error:
        raise BundleError(f"{folder / RUN_FILE} cannot be read: {error}") from None
    labels = {name: text for name, text in record.run.labels.items() if name not in LABELS}
    origin = read_provenance(folder)
    if origin is None:
        return record.model_copy(update={"run": replace(record.run, labels=labels)})
    run = replace(record.run, run_id=origin.run_id, labels=labels | origin.labels)
    return record.model_copy(update={"job_id": origin.job_id, "study_id": origin.study_id, "run": run})
