"""Import files of other tools: detect their formats and store their runs as bundles, all of them or none."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import sqlalchemy as sa

from host.disk_space import refuse_full_disk
from host.process_memory import WORTH_GIVING_BACK_BYTES, give_back_memory
from host.settings import Settings
from interchange.detect import FORMATS, format_of
from interchange.files import LARGEST_IMPORT_BYTES, MIB, ForeignFile, printable, read_paths
from interchange.json_reader import Document, documents
from interchange.kinds import begins_like_json, kind_of
from interchange.restore import is_export, restore_as_measured, restore_bundles
from lab import roles
from lab.errors import AccessError, ForeignFileError
from lab.roles import Actor, Change, Role
from warehouse.app_db import audit
from warehouse.app_db import schema as app_schema
from warehouse.app_db.engine import app_engine, reading
from warehouse.bundles.imported_bundle import ImportedBundle, imported_jobs, record_of, write_imported
from warehouse.bundles.imported_run import ImportedRun
from warehouse.ingest.bundle_rows import UNSTORABLE, imported_tables

AUTO = "auto"
#: Gets what an import does next, and the share of its work that is done, 0 to 1.
Progress = Callable[[str, float], None]
#: After reading the files, and after computing figures from them.
_READ, _COMPUTED = 0.5, 0.9
_SUPPORTED = "; ".join(f"{format_.title} ({format_.seen_versions})" for format_ in FORMATS.values())
_MOST_KEYS = 6
#: The most names in a sentence on skipped files, and the most damaged results in an import.
_MOST_NAMES, _MOST_REFUSED = 20, 200


@dataclass(frozen=True)
class Import:
    """The outcome of an import: the jobs of its runs, the runs without their requests, those that were new, and what of
    a folder was not imported: by kind the files that are no results, and a sentence for each result that is damaged.

    `taken_in` are the ids of runs that another Drafthouse exported.
    """

    jobs: tuple[str, ...]
    runs: tuple[ImportedRun, ...]
    new_run_ids: tuple[str, ...]
    skipped: tuple[str, ...]
    taken_in: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


def _silent(_next: str, _share: float) -> None:
    return


def import_paths(
    settings: Settings,
    paths: Sequence[Path],
    tool: str = AUTO,
    labels: Mapping[str, str] | None = None,
    progress: Progress = _silent,
    *,
    actor: Actor,
    as_measured: bool = False,
) -> Import:
    """Import all files and folders, or raise ForeignFileError or AccessError and import nothing.

    The runs of a folder that another Drafthouse exported, which is imported on its own, count as imported by the actor.
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
    _record(settings, actor, ", ".join(restored.jobs), restored.new_run_ids, size_bytes, as_measured=as_measured)
    return Import(restored.jobs, (), restored.new_run_ids, (), restored.run_ids)


def _refuse_measured(actor: Actor, paths: Sequence[Path], exported: Sequence[Path]) -> None:
    if actor.via != "command" or actor.role is not Role.ADMINISTRATOR:
        raise AccessError("only an administrator of the lab's own host can import runs as measured ones")
    if not exported:
        name = printable(paths[0].as_posix()) if paths else "nothing"
        raise ForeignFileError(f"{name} was not exported by Drafthouse: only its own runs can count as measured")


def _refuse_own_jobs(settings: Settings, jobs: set[str]) -> None:
    """Raise ForeignFileError if a job of this lab's queue, ended or not, would get runs."""
    engine = app_engine(settings.app_database_url)
    try:
        with reading(engine).connect() as connection:
            stored = set(connection.scalars(sa.select(app_schema.jobs.c.job_id)))
    finally:
        engine.dispose()
    if own := sorted(jobs & stored):
        raise ForeignFileError(
            f"{own[0]} is a job of this lab, and an import adds nothing to it: import the folder without --as-measured"
        )


def import_read(
    settings: Settings,
    files: Sequence[ForeignFile],
    tool: str = AUTO,
    labels: Mapping[str, str] | None = None,
    progress: Progress = _silent,
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
    progress("storing", _COMPUTED)
    if size_bytes >= WORTH_GIVING_BACK_BYTES:
        give_back_memory()
    read = _storable(read)
    try:
        new = write_imported(settings.bundles, read.runs, {file.source.sha256: file.pieces for file in read.files})
    except OSError as error:
        raise _unwritable(settings.bundles, error) from error
    places = imported_jobs(settings.bundles)
    jobs = dict.fromkeys(places[run.run_id] for run in read.runs)  # the earlier jobs of runs that were stored already
    new_ids = tuple(record.run.run_id for record in new)
    _record(settings, actor, ", ".join(jobs), new_ids, size_bytes)
    runs = tuple(replace(run, requests=None) for run in read.runs)
    return Import(tuple(jobs), runs, new_ids, read.skipped, refused=read.refused)


def _limits(settings: Settings, actor: Actor) -> Callable[[int], None]:
    """Return a function that raises ForeignFileError or UserError if there is no room for an import of so many bytes,
    on the disk or in what the user may import in a day.
    """
    earlier = 0
    if actor.via != "command":
        engine = app_engine(settings.app_database_url)
        try:
            earlier = sum(entry.detail.get("bytes", 0) for entry in audit.of_last_day(engine, actor, Change.IMPORT))
        finally:
            engine.dispose()

    def refuse_too_much(size_bytes: int) -> None:
        refuse_full_disk(settings.bundles, settings.least_free_mib + size_bytes // MIB, "the import")
        if actor.via != "command" and earlier + size_bytes > settings.import_mib_per_day * MIB:
            raise ForeignFileError(
                f"you have imported {earlier // MIB:,} MiB within 24 hours, and with these {size_bytes / MIB:,.0f} MiB "
                f"it is more than {settings.import_mib_per_day:,} (DRAFTHOUSE_IMPORT_MIB_PER_DAY): import the rest "
                "tomorrow"
            )

    return refuse_too_much


def _record(
    settings: Settings, actor: Actor, subject: str, new_run_ids: Sequence[str], size_bytes: int, **detail: object
) -> None:
    engine = app_engine(settings.app_database_url)
    detail = {name: value for name, value in detail.items() if value}
    try:
        audit.record_alone(engine, actor, Change.IMPORT, subject, new_runs=len(new_run_ids), bytes=size_bytes, **detail)
    finally:
        engine.dispose()


def _storable(read: ReadRuns) -> ReadRuns:
    """Refuse a figure that no column can hold now, not when the ingester finds the bundle."""
    named = {printable(file.name) for file in read.files if file.was_named}
    runs, refused = [], list(read.refused)
    for run in read.runs:
        try:
            imported_tables(ImportedBundle(Path(), record_of(run), run))
            runs.append(run)
        except UNSTORABLE as error:
            where = ": ".join(part for part in (run.source.name, run.place) if part)
            refused.append(f"{where}: it cannot be stored: {str(error).splitlines()[0]}")
            if run.source.name in named or len(refused) == len(read.runs):
                raise ForeignFileError(refused[-1]) from error
    return replace(read, runs=tuple(runs), refused=tuple(refused))


def _unwritable(bundles: Path, error: OSError) -> ForeignFileError:
    return ForeignFileError(f"{bundles.absolute()} cannot be written ({error.strerror}): nothing was imported")


@dataclass(frozen=True)
class ReadRuns:
    """The result of an import: each run once, the files that have some, and what of a folder was not read: the files
    that are no results, by kind, and a sentence for each result that cannot be read.
    """

    runs: tuple[ImportedRun, ...]
    skipped: tuple[str, ...]
    files: tuple[ForeignFile, ...]
    refused: tuple[str, ...] = ()


def read_runs(
    files: Sequence[ForeignFile],
    tool: str = AUTO,
    labels: Mapping[str, str] | None = None,
    progress: Progress = _silent,
) -> ReadRuns:
    """Every run in the files. Raises ForeignFileError, and imports nothing then.

    `tool` is a key of FORMATS, or AUTO. `labels` are the user's own, for every run; they override those of a file.
    A file that the user named must be a result. One found in a folder is skipped if it is not, and named if it is one
    that cannot be read. Files of one folder may describe the same run.
    """
    if tool != AUTO and tool not in FORMATS:
        raise ForeignFileError(f"no such format: {printable(tool)}. Choose {AUTO} or one of {', '.join(FORMATS)}")
    reading = _Reading(tool)
    read_bytes, all_bytes = 0, sum(file.size_bytes for file in files)
    for file in files:
        progress(f"reading {printable(file.name)}", _READ * read_bytes / max(all_bytes, 1))
        read_bytes += file.size_bytes
        reading.detect(file)
    runs: dict[str, ImportedRun] = {}
    for number, ((name, _), group) in enumerate(reading.groups.items()):
        progress("computing figures", _READ + (_COMPUTED - _READ) * number / len(reading.groups))
        runs |= {run.run_id: run for run in reading.read(name, group)}
    skipped = tuple(_counted(kind, names) for kind, names in reading.skipped.items())
    if not runs:
        raise ForeignFileError(_nothing(files, skipped, reading.refused))
    labelled = (replace(run, labels={**run.labels, **(labels or {})}) for run in runs.values())
    return ReadRuns(tuple(labelled), skipped, tuple(reading.results), tuple(reading.refused))


class _Reading:
    """What is found in the files of an import: the documents that are read together, and what is not read."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self.groups: dict[tuple[str, str], list[Document]] = {}
        self.results: list[ForeignFile] = []
        self.skipped: dict[str, list[str]] = {}  # names by kind
        self.refused: list[str] = []

    def detect(self, file: ForeignFile) -> None:
        """Add what is in the file. Raises ForeignFileError if it was named and is no result, or damaged."""
        try:
            detected = _detected(file, self._tool)
        except _NotAResultError as error:
            if file.was_named:
                raise ForeignFileError(f"{error}. Supported are {_SUPPORTED}") from error
            self.skipped.setdefault(error.kind, []).append(printable(file.name))
        except ForeignFileError as error:
            self._refuse(file, error)
        else:
            self.results.append(file)
            for name, document in detected:
                together = file.folder if FORMATS[name].is_of_folder else file.name
                self.groups.setdefault((name, together), []).append(document)

    def read(self, name: str, group: Sequence[Document]) -> list[ImportedRun]:
        """Return the runs of documents, without those of a file that was found and cannot be read."""
        while group:
            try:
                return FORMATS[name].read(group)
            except ForeignFileError as error:
                files = (document.file for document in group)
                bad = next((file for file in files if str(error).startswith(f"{printable(file.name)}: ")), None)
                if bad is None:
                    raise
                self._refuse(bad, error)
                group = [document for document in group if document.file is not bad]
        return []

    def _refuse(self, file: ForeignFile, error: ForeignFileError) -> None:
        if file.was_named:
            raise error
        self.refused.append(str(error))
        if len(self.refused) > _MOST_REFUSED:
            raise ForeignFileError(
                f"more than {_MOST_REFUSED} of the files cannot be read, such as {self.refused[0]}"
            ) from error


class _NotAResultError(Exception):
    """The file is not a result of a supported tool; the text is for the user, `kind` for a list of such files."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


def _detected(file: ForeignFile, tool: str) -> list[tuple[str, Document]]:
    """Every document of the file with its format. Raises ForeignFileError for a damaged result."""
    if file.problem:
        raise ForeignFileError(file.problem)
    head = file.head
    if not begins_like_json(head):
        kind, remedy = kind_of(head)
        if kind == "text" and file.was_named and head.lstrip()[:1] in (b"{", b"["):
            documents(file)  # says in which line
        raise _NotAResultError(f"{printable(file.name)}: this is {kind}, not JSON: {remedy}", kind)
    detected: list[tuple[str, Document]] = []
    for document in documents(file):
        name = format_of(document.value)
        if name is None or tool not in (AUTO, name):
            kind = _what_it_is(document.value, name)
            error = document.error((), kind)
            raise error if detected else _NotAResultError(str(error), kind)
        detected.append((name, document))
    return detected


def _what_it_is(value: object, name: str | None) -> str:
    if name is not None:
        return f"this is a result of {FORMATS[name].title}: choose {name} or {AUTO}"
    keys = ", ".join(printable(key) for key in list(value)[:_MOST_KEYS]) if isinstance(value, dict) else ""
    has = f"its keys begin with {keys}" if keys else "it has no keys that identify it"
    return f"not a supported result: {has}"


def _counted(kind: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{len(names)} {'file' if len(names) == 1 else 'files'} ({kind}): {', '.join(names[:_MOST_NAMES])}{more}"


def _nothing(files: Sequence[ForeignFile], skipped: Sequence[str], refused: Sequence[str]) -> str:
    if not files:
        return "no file to import: name result files or a folder with some"
    about = "; ".join((*refused, *(f"skipped {sentence}" for sentence in skipped)))
    return f"none of the {len(files)} files has a run{f': {about}' if about else ''}"
