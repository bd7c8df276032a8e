"""Reading the runs in files of other tools: the format of each file is detected by its content, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from interchange.files import LONGEST_NAME, ForeignFile, printable
from interchange.formats import FORMATS
from interchange.json_reader import Document, NotAResultError, documents
from interchange.kinds import begins_like_json, kind_of, readable_text
from interchange.text_reader import text_documents
from lab.errors import ForeignFileError
from lab.metrics.number_format import counted
from lab.validity.words import listed
from warehouse.bundles.imported_run import ImportedRun

AUTO = "auto"
#: Called with the next step of an import, and the share of its work that is done, 0 to 1.
Progress = Callable[[str, float], None]
SILENT: Progress = lambda _next, _share: None  # noqa: E731 - a default, not a function of its own
#: The share of an import's work that is done after reading the files, and after computing figures from them.
READ, COMPUTED = 0.5, 0.9
_SUPPORTED = f"Supported are results of {', '.join(FORMATS)}; docs/importing.md has their files and versions"
_MOST_KEYS = 6
#: The most names in a sentence on skipped files.
_MOST_NAMES = 20
#: The most labels of the user's own.
_MOST_LABELS = 100


@dataclass(frozen=True)
class ReadRuns:
    """The result of an import: each run once; the files with runs; and, of a folder, the files that are not results, by
    kind, and a sentence for each result that cannot be read.
    """

    runs: tuple[ImportedRun, ...]
    skipped: tuple[str, ...]
    files: tuple[ForeignFile, ...]
    refused: tuple[str, ...] = ()


def read_runs(
    files: Sequence[ForeignFile],
    tool: str = AUTO,
    labels: Mapping[str, str] | None = None,
    progress: Progress = SILENT,
) -> ReadRuns:
    """Return every run in the files. Raises ForeignFileError, and imports nothing then.

    `tool` is a key of FORMATS, or AUTO. `labels` are the user's own, for every run; they override those of a file.
    A file that the user named must be a result. A file found in a folder is skipped if it is not, and reported if it
    is damaged. Files of one folder may describe the same run.
    """
    if tool != AUTO and tool not in FORMATS:
        raise ForeignFileError(f"no such format: {printable(tool)}. Choose {AUTO} or one of {', '.join(FORMATS)}")
    labels = labels or {}
    _refuse_long(labels)
    reading = _Reading(tool)
    read_bytes, all_bytes = 0, sum(file.size_bytes for file in files)
    for file in files:
        progress(f"reading {printable(file.name)}", READ * read_bytes / max(all_bytes, 1))
        read_bytes += file.size_bytes
        reading.detect(file)
    runs: dict[str, ImportedRun] = {}
    for number, ((name, _), group) in enumerate(reading.groups.items()):
        progress("computing figures", READ + (COMPUTED - READ) * number / len(reading.groups))
        runs |= {run.run_id: run for run in reading.read(name, group)}
    skipped = tuple(
        f"{counted(len(names), 'file')} ({kind}): {listed(names, _MOST_NAMES)}"
        for kind, names in reading.skipped.items()
    )
    if not runs:
        raise ForeignFileError(_nothing(files, skipped, reading.refused))
    labelled = (replace(run, labels={**run.labels, **labels}) for run in runs.values())
    return ReadRuns(tuple(labelled), skipped, tuple(reading.results), tuple(reading.refused))


def _refuse_long(labels: Mapping[str, str]) -> None:
    """Raise ForeignFileError for labels that would fill the disk: every run of an import stores them all."""
    if len(labels) > _MOST_LABELS:
        raise ForeignFileError(f"an import takes at most {_MOST_LABELS} labels, and these are {len(labels):,}")
    for key, value in labels.items():
        if printable(key) != key or printable(value) != value:
            raise ForeignFileError(
                f"label {printable(key)}: its key and its value are at most {LONGEST_NAME} printable characters each"
            )


class _Reading:
    """The contents of an import's files: the documents that are read together, and what is not read."""

    def __init__(self, tool: str) -> None:
        self._tool = tool
        self.groups: dict[tuple[str, str], list[Document]] = {}
        self.results: list[ForeignFile] = []
        self.skipped: dict[str, list[str]] = {}  # names by kind
        self.refused: list[str] = []

    def detect(self, file: ForeignFile) -> None:
        """Add the file's documents. Raises ForeignFileError if it was named and is not a result, or damaged."""
        try:
            detected = _detected(file, self._tool)
        except ForeignFileError as error:
            self._leave_out(file, error)
        else:
            self.results.append(file)
            for name, document in detected:
                together = file.folder if FORMATS[name].is_of_folder else file.name
                self.groups.setdefault((name, together), []).append(document)

    def read(self, name: str, group: Sequence[Document]) -> list[ImportedRun]:
        """Return the runs of the documents, except for found files that cannot be read."""
        while group:
            try:
                return FORMATS[name].read(group)
            except ForeignFileError as error:
                files = (document.file for document in group)
                bad = next((file for file in files if str(error).startswith(f"{printable(file.name)}: ")), None)
                if bad is None:
                    raise
                self._leave_out(bad, error)
                group = [document for document in group if document.file is not bad]
        return []

    def _leave_out(self, file: ForeignFile, error: ForeignFileError) -> None:
        if file.was_named:
            raise error
        if isinstance(error, NotAResultError):
            self.skipped.setdefault(error.kind, []).append(printable(file.name))
        else:
            self.refused.append(str(error))


def _detected(file: ForeignFile, tool: str) -> list[tuple[str, Document]]:
    """Return every document of the file with its format. Raises ForeignFileError for a damaged result."""
    if file.problem:
        raise ForeignFileError(file.problem)
    head = file.head
    text = readable_text(head)
    if not text and not begins_like_json(head):
        kind, remedy = kind_of(head)
        if kind == "text" and file.was_named and head.lstrip()[:1] in (b"{", b"["):
            documents(file)  # its error names the line
        raise NotAResultError(f"{printable(file.name)}: this is {kind}, not JSON: {remedy}. {_SUPPORTED}", kind)
    detected: list[tuple[str, Document]] = []
    for document in text_documents(file, text) if text else documents(file):
        name = next((name for name, format_ in FORMATS.items() if format_.detect(document.value)), None)
        if name is None or tool not in (AUTO, name):
            kind = _what_it_is(document.value, name)
            if detected:
                raise document.error((), kind)
            raise NotAResultError(f"{document.error((), kind)}. {_SUPPORTED}", kind)
        detected.append((name, document))
    return detected


def _what_it_is(value: object, name: str | None) -> str:
    if name is not None:
        return f"this is a result of {FORMATS[name].title}: choose {name} or {AUTO}"
    if known := next(filter(None, (format_.not_a_run(value) for format_ in FORMATS.values())), ""):
        return known
    value = value[0] if isinstance(value, list) and value else value
    keys = ", ".join(printable(key) for key in list(value)[:_MOST_KEYS]) if isinstance(value, dict) else ""
    has = f"its first keys are {keys}" if keys else "it has no keys that identify it"
    return f"not a supported result: {has}"


def _nothing(files: Sequence[ForeignFile], skipped: Sequence[str], refused: Sequence[str]) -> str:
    if not files:
        return "no file to import: name result files or a folder with some"
    about = "; ".join((*refused, *(f"skipped {sentence}" for sentence in skipped)))
    return f"none of the {len(files)} files has a run{f': {about}' if about else ''}"
