"""Read foreign files whole, within limits that bound the memory. Nothing is unpacked or unpickled."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from lab.errors import ForeignFileError
from warehouse.importers.model import SourceFile

MIB = 2**20
#: The largest file that is read. A result file with every request of a long run in it has some ten MiB.
LARGEST_FILE_BYTES = 128 * MIB
#: The most that one import reads. It stays in memory until all of it is parsed, so that nothing is half imported.
LARGEST_IMPORT_BYTES = 256 * MIB
#: The most files that a folder may have.
MOST_FILES = 10_000
_LONGEST_NAME = 200


@dataclass(frozen=True)
class ForeignFile:
    """A file's content and its name, which is shown and tells folders apart; the file is never opened by it."""

    name: str
    content: bytes
    was_named: bool = True  # by the user; False for a file found in a folder

    def __post_init__(self) -> None:
        if len(self.content) > LARGEST_FILE_BYTES:
            raise ForeignFileError(too_large(self.name, len(self.content)))

    @cached_property
    def source(self) -> SourceFile:
        digest = hashlib.sha256(self.content).hexdigest()
        return SourceFile(printable(self.name), digest, len(self.content))

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]


def read_paths(paths: Sequence[Path]) -> tuple[ForeignFile, ...]:
    """Read the named files, and every regular file in the named folders; links in folders are not followed.

    Raises ForeignFileError for missing or too large files, and for too many.
    """
    files: list[ForeignFile] = []
    left = LARGEST_IMPORT_BYTES
    for path, name, was_named in _walk(paths):
        files.append(ForeignFile(name, _content(path, name), was_named))
        left -= len(files[-1].content)
        if left < 0 or len(files) > MOST_FILES:
            raise ForeignFileError(
                f"{printable(name)}: more than {LARGEST_IMPORT_BYTES // MIB} MiB or {MOST_FILES} files in one import: "
                "import fewer at a time"
            )
    return tuple(files)


def printable(name: str) -> str:
    """A foreign name as one short printable line."""
    shown = "".join(character if character.isprintable() else "?" for character in name)
    return shown if len(shown) <= _LONGEST_NAME else f"...{shown[-_LONGEST_NAME:]}"


def too_large(name: str, size: int) -> str:
    return (
        f"{printable(name)}: {size / MIB:.0f} MiB is more than the limit of {LARGEST_FILE_BYTES // MIB} MiB per "
        "file: import its runs one by one, or save it without the texts of prompts and answers"
    )


def _walk(paths: Sequence[Path]) -> Iterator[tuple[Path, str, bool]]:
    for path in paths:
        if not path.is_dir():
            yield path, path.as_posix(), True
            continue
        for folder, _, names in sorted(os.walk(path)):
            for name in sorted(names):
                inner = Path(folder) / name
                if inner.is_file() and not inner.is_symlink():
                    yield inner, inner.as_posix(), False


def _content(path: Path, name: str) -> bytes:
    """The file's content. Reads at most one byte more than the limit, even if the file grows meanwhile."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise ForeignFileError(f"{printable(name)}: this is not a regular file: name a result file or a folder")
        if status.st_size > LARGEST_FILE_BYTES:
            raise ForeignFileError(too_large(name, status.st_size))
        with path.open("rb") as opened:
            return opened.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise ForeignFileError(f"{printable(name)}: cannot be read: {error.strerror}") from error
