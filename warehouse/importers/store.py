"""Store files of other tools as bundles, which the ingester finds like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import ForeignFileError
from warehouse.bundles.imported_bundle import ImportedBundle, record_of, write_imported
from warehouse.bundles.restore import is_export, restore_bundles
from warehouse.bundles.run_bundle import find_bundles
from warehouse.importers.files import LARGEST_IMPORT_BYTES, MIB, ForeignFile, printable, read_paths
from warehouse.importers.load import AUTO, import_files
from warehouse.importers.model import ImportedRun
from warehouse.ingest.bundle_rows import UNSTORABLE, imported_tables
from warehouse.settings import Settings


@dataclass(frozen=True)
class Import:
    """The outcome of an import: the jobs of its runs, the runs that were new, and the skipped files.

    `taken_in` are the ids of runs that another Drafthouse exported.
    """

    jobs: tuple[str, ...]
    runs: tuple[ImportedRun, ...]
    new_run_ids: tuple[str, ...]
    skipped: tuple[str, ...]
    taken_in: tuple[str, ...] = ()


def import_paths(
    settings: Settings, paths: Sequence[Path], tool: str = AUTO, labels: Mapping[str, str] | None = None
) -> Import:
    """Import all files and folders, or raise ForeignFileError and import nothing.

    A folder that another Drafthouse exported is restored as it is, on its own: its runs keep their ids and count as
    measured.
    """
    exported = [path for path in paths if is_export(path)]
    if not exported:
        return import_read(settings, read_paths(paths), tool, labels)
    if len(paths) > 1 or labels or tool != AUTO:
        name = printable(exported[0].as_posix())
        raise ForeignFileError(f"{name} was exported by Drafthouse: import it alone, without a tool and labels")
    try:
        runs, new = restore_bundles(settings.bundles, exported[0])
    except OSError as error:
        raise _unwritable(settings, error) from error
    return Import(jobs=(), runs=(), new_run_ids=new, skipped=(), taken_in=runs)


def import_read(
    settings: Settings, files: Sequence[ForeignFile], tool: str = AUTO, labels: Mapping[str, str] | None = None
) -> Import:
    """Import files that were read or uploaded. Runs that are stored already stay as they are."""
    if sum(len(file.content) for file in files) > LARGEST_IMPORT_BYTES:
        raise ForeignFileError(
            f"more than {LARGEST_IMPORT_BYTES // MIB} MiB in one import: import fewer files at a time"
        )
    found = import_files(files, tool, labels)
    for run in found.runs:
        _refuse_unstorable(run)
    try:
        new = write_imported(settings.bundles, found.runs, {file.source.sha256: file.content for file in files})
    except OSError as error:
        raise _unwritable(settings, error) from error
    places = {folder.name: folder.parent.name for folder in find_bundles(settings.bundles)}
    jobs = dict.fromkeys(places[run.run_id] for run in found.runs)  # the earlier jobs of runs that were stored already
    return Import(tuple(jobs), found.runs, tuple(record.run.run_id for record in new), found.skipped)


def _refuse_unstorable(run: ImportedRun) -> None:
    """Refuse a figure that no column can hold now, not when the ingester finds the bundle."""
    try:
        imported_tables(ImportedBundle(Path(), record_of(run), run))
    except UNSTORABLE as error:
        where = ": ".join(part for part in (run.source.name, run.place) if part)
        raise ForeignFileError(f"{where}: it cannot be stored: {str(error).splitlines()[0]}") from error


def _unwritable(settings: Settings, error: OSError) -> ForeignFileError:
    return ForeignFileError(f"{settings.bundles.absolute()} cannot be written ({error.strerror}): nothing was imported")
