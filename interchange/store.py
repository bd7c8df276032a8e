"""Import files of other tools: store their runs as bundles, all of them or none; move such results aside and back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from host.disk_space import refuse_full_disk
from host.process_memory import WORTH_GIVING_BACK_BYTES, give_back_memory
from host.settings import Settings
from interchange.files import LARGEST_IMPORT_BYTES, MIB, ForeignFile, printable, read_paths
from interchange.reading import AUTO, COMPUTED, SILENT, Progress, ReadRuns, read_runs
from interchange.restore import is_export, restore_as_measured, restore_bundles
from lab import roles
from lab.errors import AccessError, BundleError, ForeignFileError
from lab.roles import Actor, Change, Role
from warehouse.app_db import audit, curated, stored_objects
from warehouse.app_db import schema as app_schema
from warehouse.app_db.engine import open_engine, reading
from warehouse.bundles.imported_bundle import (
    imported_jobs,
    read_record,
    record_of,
    write_imported,
)
from warehouse.bundles.imported_run import ImportedRun
from warehouse.bundles.pending import mark_pending
from warehouse.bundles.removed import imported_runs, remove_job, restore_job
from warehouse.bundles.run_bundle import bundle_folder
from warehouse.bundles.store import open_store
from warehouse.ingest.bundle_rows import UNSTORABLE, imported_tables


@dataclass(frozen=True)
class Import:
    """The outcome of an import: the jobs of its runs, the runs without their requests, the new runs, and what of a
    folder was not imported: by kind the files that are not results, and a sentence for each result that is damaged.

    `taken_in` are the ids of runs that another Drafthouse exported.
    """

    jobs: tuple[str, ...]
    runs: tuple[ImportedRun, ...]
    new_run_ids: tuple[str, ...]
    skipped: tuple[str, ...]
    taken_in: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def document(self) -> dict[str, object]:
        """Return the import as a JSON document, the same from the command and from the API."""
        new = set(self.new_run_ids)
        runs: list[dict[str, object]] = [
            {"run_id": run.run_id, "tool": run.tool, "tool_version": run.tool_version, "new": run.run_id in new}
            | {"file": run.source.name, "sha256": run.source.sha256, "place": run.place, "doubts": run.doubts}
            | {"target": run.columns["target"]}
            for run in self.runs
        ]
        runs += [{"run_id": run_id, "tool": "drafthouse", "new": run_id in new} for run_id in self.taken_in]
        return {"jobs": self.jobs, "runs": runs, "skipped": self.skipped, "refused": self.refused}


def import_paths(
    settings: Settings,
    paths: Sequence[Path],
    tool: str = AUTO,
    labels: Mapping[str, str] | None = None,
    progress: Progress = SILENT,
    *,
    actor: Actor,
    as_measured: bool = False,
) -> Import:
    """Import all files and folders, or raise ForeignFileError or AccessError and import nothing.

    A folder that another Drafthouse exported must be imported on its own; its runs count as imported by the actor.
    `as_measured`, for an administrator at the command line, restores them as they are: they keep their ids and count as
    measured.
    """
    roles.require(actor, Change.IMPORT, is_new=True)
    exported = [path for path in paths if is_export(path)]
    if as_measured:
        _refuse_measured(actor, paths, exported)
    if not exported:
        return import_read(settings, read_paths(paths), tool, labels, progress, actor=actor)
    if len(paths) > 1 or labels or tool != AUTO:
        name = printable(exported[0].as_posix())
        raise ForeignFileError(f"{name} was exported by Drafthouse: import it alone, without a tool and labels")
    size_bytes = sum(file.stat().st_size for file in exported[0].rglob("*") if file.is_file())
    refuse_too_much = _limits(settings, actor)
    refuse_too_much(size_bytes)
    try:
        if as_measured:
            restored = restore_as_measured(settings.bundles, exported[0], partial(_refuse_own_jobs, settings))
        else:
            restored = restore_bundles(settings.bundles, exported[0], actor.name, refuse_too_much)
    except OSError as error:
        raise _unwritable(settings.bundles, error) from error
    size_bytes = max(size_bytes, restored.size_bytes)
    measured = {"as_measured": True} if as_measured else {}
    new = len(restored.new_run_ids)
    _record(settings, actor, restored.jobs, new_runs=new, bytes=size_bytes, **measured)
    return Import(restored.jobs, (), restored.new_run_ids, (), restored.run_ids)


def _refuse_measured(actor: Actor, paths: Sequence[Path], exported: Sequence[Path]) -> None:
    if actor.via != "command" or actor.role is not Role.ADMINISTRATOR:
        raise AccessError("only an administrator of the lab's own host can import runs as measured ones")
    if not exported:
        name = printable(paths[0].as_posix()) if paths else "nothing"
        raise ForeignFileError(f"{name} was not exported by Drafthouse: only its own runs can count as measured")


def _refuse_own_jobs(settings: Settings, jobs: set[str]) -> None:
    """Raise ForeignFileError if a job of this lab's queue, ended or not, would get runs."""
    with open_engine(settings.app_database_url) as engine, reading(engine).connect() as connection:
        stored = set(connection.scalars(sa.select(app_schema.jobs.c.job_id)))
    if own := sorted(jobs & stored):
        raise ForeignFileError(
            f"{own[0]} is a job of this lab, and an import cannot add to it: import the folder without --as-measured"
        )


def import_read(
    settings: Settings,
    files: Sequence[ForeignFile],
    tool: str = AUTO,
    labels: Mapping[str, str] | None = None,
    progress: Progress = SILENT,
    *,
    actor: Actor,
) -> Import:
    """Import files that were read or uploaded. Runs that are stored already stay as they are."""
    roles.require(actor, Change.IMPORT, is_new=True)
    size_bytes = sum(file.size_bytes for file in files)
    if size_bytes > LARGEST_IMPORT_BYTES:
        raise ForeignFileError(
            f"more than {LARGEST_IMPORT_BYTES // MIB} MiB in one import: import fewer files at a time"
        )
    _limits(settings, actor)(size_bytes)
    read = read_runs(files, tool, labels, progress)
    progress("storing", COMPUTED)
    if size_bytes >= WORTH_GIVING_BACK_BYTES:
        give_back_memory()
    read = _storable(read)
    _refuse_others(settings, read.runs, actor)
    try:
        new = write_imported(settings.bundles, read.runs, {file.source.sha256: file.pieces for file in read.files})
    except OSError as error:
        raise _unwritable(settings.bundles, error) from error
    job_of = imported_jobs(settings.bundles)
    new_ids = {record.run.run_id for record in new}
    jobs = dict.fromkeys(job_of[run.run_id] for run in read.runs)  # runs that were stored already keep their jobs
    _record(settings, actor, tuple(jobs), new_runs=len(new_ids), bytes=size_bytes)
    runs, lacking = [], []
    for run in read.runs:
        job_id = job_of[run.run_id]
        stored = run if run.run_id in new_ids else _stored(settings.bundles, job_id, run)
        runs.append(replace(stored, requests=None))
        lacking += _lacking(job_id, run, stored)
    ids = tuple(run.run_id for run in runs if run.run_id in new_ids)
    return Import(tuple(jobs), tuple(runs), ids, read.skipped, refused=(*read.refused, *lacking))


def _refuse_others(settings: Settings, runs: Sequence[ImportedRun], actor: Actor) -> None:
    """Raise AccessError if a new run would become part of a study that somebody else has imported."""
    stored = imported_jobs(settings.bundles)
    records = {record.job_id: record for record in map(record_of, runs) if record.run.run_id not in stored}
    with open_engine(settings.app_database_url) as engine:
        for job_id, record in records.items():
            owner = curated.find(engine, job_id).owner
            is_new = owner is None and job_id not in stored.values()
            if not roles.may(actor, Change.IMPORT, owner, is_new=is_new):
                raise AccessError(
                    f"these runs would become part of the imported study {printable(record.study_name)!r}, which "
                    f"belongs to {owner or 'nobody that is known'}: give them a study of their own with the label "
                    "study=NAME, or ask an administrator to import them"
                )


def _stored(bundles: Path, job_id: str, run: ImportedRun) -> ImportedRun:
    """Return the run as an earlier import stored it; the run itself if its bundle cannot be read."""
    with contextlib.suppress(BundleError):
        return read_record(bundle_folder(bundles, job_id, run.run_id)).run
    return run


def _lacking(job_id: str, run: ImportedRun, stored: ImportedRun) -> list[str]:
    """Return a sentence on what the stored run lacks: another of its files, or a later importer, has it."""
    values, had = {**run.columns, **run.metrics}, {**stored.columns, **stored.metrics}
    lacks = [name for name, value in values.items() if value is not None and had.get(name) is None]
    remedy = f"to replace it, remove {job_id} on External results and import all of its files again"
    name = printable(run.source.name)
    return [f"{name}: the run is stored already, without {', '.join(lacks)}: {remedy}"] if lacks else []


def _limits(settings: Settings, actor: Actor) -> Callable[[int], None]:
    """Return a function that raises ForeignFileError or UserError if an import of that many bytes does not fit on the
    disk or into the user's daily allowance.
    """
    earlier = 0
    if actor.via != "command":
        with open_engine(settings.app_database_url) as engine:
            earlier = sum(entry.detail.get("bytes", 0) for entry in audit.of_last_day(engine, actor, Change.IMPORT))

    def refuse_too_much(size_bytes: int) -> None:
        refuse_full_disk(settings.bundles, settings.least_free_mib + size_bytes // MIB, "the import")
        if actor.via != "command" and earlier + size_bytes > settings.import_mib_per_day * MIB:
            raise ForeignFileError(
                f"you have imported {earlier // MIB:,} MiB within 24 hours, and these {size_bytes / MIB:,.0f} MiB "
                f"would exceed the limit of {settings.import_mib_per_day:,} (DRAFTHOUSE_IMPORT_MIB_PER_DAY): import "
                "the rest tomorrow"
            )

    return refuse_too_much


def move_aside(settings: Settings, job_id: str) -> None:
    """Move the runs of a deleted job aside, if they are imported results and there."""
    paths = imported_runs(settings.bundles, job_id)
    if not paths:
        return
    if (store := open_store(settings)) is not None:
        for path in paths:
            store.remove(path)
        with open_engine(settings.app_database_url) as engine:
            stored_objects.record_change(engine, dict.fromkeys(paths))
    remove_job(settings.bundles, job_id)


def move_back(settings: Settings, job_id: str, deleted_at: datetime) -> None:
    """Move the runs that `move_aside` moved since this moment back, if there are any.

    With an object store the ingester moves them aside, too, as soon as their rows say so, each into a folder of its
    own: so all of them are put back in the store, and those that are not here are fetched from it.
    """
    paths = restore_job(settings.bundles, job_id)
    if (store := open_store(settings)) is not None:
        with open_engine(settings.app_database_url) as engine:
            uploaded = [row for row in stored_objects.of_job(engine, job_id) if "/" in row.path and row.serial]
            paths += [row.path for row in uploaded if row.manifest_sha256 is not None or row.at >= deleted_at]
            manifests = {path: store.put_back(path) for path in dict.fromkeys(paths)}
            for path in (path for path, manifest_sha256 in manifests.items() if manifest_sha256 is None):
                mark_pending(settings.bundles, path)  # it was removed before it was uploaded
            stored_objects.record_change(engine, {path: sha256 for path, sha256 in manifests.items() if sha256})


def _record(settings: Settings, actor: Actor, jobs: Sequence[str], **detail: object) -> None:
    with open_engine(settings.app_database_url) as engine:
        curated.note_import(engine, jobs, actor.name)
        audit.record_alone(engine, actor, Change.IMPORT, ", ".join(jobs), **detail)


def _storable(read: ReadRuns) -> ReadRuns:
    """Refuse a figure that no column can hold now, rather than when the ingester finds the bundle."""
    named = {printable(file.name) for file in read.files if file.was_named}
    runs, refused = [], list(read.refused)
    for run in read.runs:
        try:
            imported_tables(record_of(run).model_copy(update={"run": run}))
            runs.append(run)
        except UNSTORABLE as error:
            where = ": ".join(part for part in (run.source.name, run.place) if part)
            refused.append(f"{where}: it cannot be stored: {str(error).splitlines()[0]}")
            if run.source.name in named or len(refused) == len(read.runs):
                raise ForeignFileError(refused[-1]) from error
    return replace(read, runs=tuple(runs), refused=tuple(refused))


def _unwritable(bundles: Path, error: OSError) -> ForeignFileError:
    return ForeignFileError(f"{bundles.absolute()} cannot be written ({error.strerror}): nothing was imported")
