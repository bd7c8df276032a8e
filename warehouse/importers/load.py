"""Import files: detect their formats and return the runs of all of them, or raise and import nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from lab.errors import ForeignFileError
from warehouse.importers.detect import FORMATS, format_of
from warehouse.importers.files import ForeignFile, printable
from warehouse.importers.json_reader import Document, documents
from warehouse.importers.model import ImportedRun

AUTO = "auto"
_SUPPORTED = "; ".join(f"{one.title} ({one.seen_versions})" for one in FORMATS.values())
_MOST_KEYS = 6


@dataclass(frozen=True)
class Imported:
    """The result of an import: each run once, and the files of a folder that were skipped, with the reason."""

    runs: tuple[ImportedRun, ...]
    skipped: tuple[str, ...]


def import_files(files: Sequence[ForeignFile], tool: str = AUTO, labels: Mapping[str, str] | None = None) -> Imported:
    """Every run in the files. Raises ForeignFileError, and imports nothing then.

    `tool` is a key of FORMATS, or AUTO. `labels` are the user's own, for every run; they override those of a file.
    A file that the user named must be a result; one found in a folder is skipped if it is not. Files of one folder may
    describe the same run.
    """
    if tool != AUTO and tool not in FORMATS:
        raise ForeignFileError(f"no such format: {printable(tool)}. Choose {AUTO} or one of {', '.join(FORMATS)}")
    groups: dict[tuple[str, str], list[Document]] = {}
    skipped: list[str] = []
    for file in files:
        try:
            found = _recognised(file, tool)
        except _NotAResultError as error:
            if file.was_named:
                raise _named(error) from error
            skipped.append(str(error))
            continue
        for name, document in found:
            groups.setdefault((name, file.folder), []).append(document)
    runs = {run.run_id: run for (name, _), group in groups.items() for run in FORMATS[name].read(group)}
    if not runs:
        raise ForeignFileError(_nothing(files, skipped))
    labelled = (replace(run, labels={**run.labels, **(labels or {})}) for run in runs.values())
    return Imported(tuple(labelled), tuple(skipped))


class _NotAResultError(Exception):
    """The file is not a result of a supported tool; the text is for the user."""


def _named(error: _NotAResultError) -> ForeignFileError:
    return ForeignFileError(f"{error}. Supported are {_SUPPORTED}")


def _recognised(file: ForeignFile, tool: str) -> list[tuple[str, Document]]:
    """Every document of the file with its format. Raises ForeignFileError for a damaged result."""
    if not file.was_named and not _looks_like_json(file):
        raise _NotAResultError(f"{printable(file.name)}: this is not JSON")
    found: list[tuple[str, Document]] = []
    for document in documents(file):
        name = format_of(document.value)
        if name is None or tool not in (AUTO, name):
            error = document.error((), _what_it_is(document.value, name))
            raise error if found else _NotAResultError(str(error))
        found.append((name, document))
    return found


def _looks_like_json(file: ForeignFile) -> bool:
    return file.content[:64].removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")


def _what_it_is(value: object, name: str | None) -> str:
    if name is not None:
        return f"this is a result of {FORMATS[name].title}: choose {name} or {AUTO}"
    keys = ", ".join(printable(key) for key in list(value)[:_MOST_KEYS]) if isinstance(value, dict) else ""
    has = f"its keys begin with {keys}" if keys else "it has no keys that identify it"
    return f"not a supported result: {has}"


def _nothing(files: Sequence[ForeignFile], skipped: Sequence[str]) -> str:
    if not files:
        return "no file to import: name result files or a folder with some"
    first = f", such as {skipped[0]}" if skipped else ""
    return f"none of the {len(files)} files has a run{first}"
