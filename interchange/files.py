"""Read foreign files, within limits that bound the memory. Nothing is unpacked or unpickled."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from interchange.kinds import HEAD_BYTES, begins_like_json, readable_text
from lab.errors import ForeignFileError
from warehouse.bundles.imported_run import SourceFile

MIB = 2**20
#: The largest file that is read. A result file with every request of a long run in it has some ten MiB.
LARGEST_FILE_BYTES = 128 * MIB
#: The most that one import reads. All of it is in memory before anything is stored, so that nothing is half imported.
LARGEST_IMPORT_BYTES = 256 * MIB
#: The most files that a folder may have.
MOST_FILES = 10_000
#: From this size on, the content of a file on disk is never in memory as a whole.
LARGE_BYTES = MIB
_PIECE_BYTES = MIB
LONGEST_NAME = 200


@dataclass
class ForeignFile:
    """A file's content, or the path of a large file, and its name, which is shown and identifies its folder; it is
    never opened by its name.

    A file at a path may be read several times. Every reading gives the same content, or raises ForeignFileError.
    """

    name: str
    content: bytes | Path
    was_named: bool = True  # by the user; False for a file found in a folder
    problem: str = ""  # why a file that was found cannot be read, as a sentence
    size_bytes: int = field(init=False)
    _sha256: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.size_bytes = self.content.stat().st_size if isinstance(self.content, Path) else len(self.content)
        if self.size_bytes > LARGEST_FILE_BYTES:
            raise ForeignFileError(too_large(self.name, self.size_bytes))

    @property
    def head(self) -> bytes:
        """Return the beginning of the content. Raises ForeignFileError."""
        return next(self._read(), b"")[:HEAD_BYTES]

    @property
    def is_large(self) -> bool:
        return self.size_bytes >= LARGE_BYTES

    @property
    def source(self) -> SourceFile:
        if not self._sha256:
            deque(self.pieces(), maxlen=0)
        return SourceFile(printable(self.name), self._sha256, self.size_bytes)

    def whole(self) -> bytes:
        if isinstance(self.content, bytes):
            return self.content
        with io.BytesIO() as read:
            read.writelines(self.pieces())
            return read.getvalue()

    def pieces(self) -> Iterator[bytes]:
        """Yield the content piece by piece. Raises ForeignFileError at its end if the file has changed."""
        digest, read_bytes = hashlib.sha256(), 0
        for piece in self._read():
            digest.update(piece)
            read_bytes += len(piece)
            yield piece
        sha256 = digest.hexdigest()
        self._sha256 = self._sha256 or sha256
        if (read_bytes, sha256) != (self.size_bytes, self._sha256):
            raise ForeignFileError(f"{printable(self.name)}: it changed while it was imported: import it again")

    def _read(self) -> Iterator[bytes]:
        """Read at most one byte more than the file had, even if it grows meanwhile."""
        opened: BinaryIO
        try:
            with io.BytesIO(self.content) if isinstance(self.content, bytes) else self.content.open("rb") as opened:
                left = self.size_bytes + 1
                while piece := opened.read(min(left, _PIECE_BYTES)):
                    left -= len(piece)
                    yield piece
        except OSError as error:
            raise _unreadable(self.name, error) from error

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]


def read_paths(paths: Sequence[Path]) -> tuple[ForeignFile, ...]:
    """Read the named files, and every regular file in the named folders; links in folders are not followed.

    If a found file does not begin like JSON, only its beginning is read, to identify it. Raises ForeignFileError for
    named files that are missing or too large, and for too many files.
    """
    files: list[ForeignFile] = []
    left = LARGEST_IMPORT_BYTES
    for path, name, was_named in _walk(paths):
        files.append(_file(path, name, was_named=was_named))
        left -= files[-1].size_bytes
        if left < 0 or len(files) > MOST_FILES:
            raise ForeignFileError(
                f"{printable(name)}: more than {LARGEST_IMPORT_BYTES // MIB} MiB or {MOST_FILES} files in one import: "
                "import fewer at a time"
            )
    return tuple(files)


def printable(name: str) -> str:
    """Return a foreign name as one short printable line."""
    shown = "".join(character if character.isprintable() else "?" for character in name)
    return shown if len(shown) <= LONGEST_NAME else f"...{shown[-LONGEST_NAME:]}"


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


def _file(path: Path, name: str, *, was_named: bool) -> ForeignFile:
    try:
        return _read_file(path, name, was_named=was_named)
    except OSError as error:
        refused = _unreadable(name, error)
    except ForeignFileError as error:
        refused = error
    if was_named:
        raise refused
    return ForeignFile(name, b"", was_named, str(refused))


def _read_file(path: Path, name: str, *, was_named: bool) -> ForeignFile:
    """Read at most one byte more than the limit, even if the file grows meanwhile."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ForeignFileError(f"{printable(name)}: this is not a regular file: name a result file or a folder")
    with path.open("rb") as opened:
        head = opened.read(HEAD_BYTES)
        if not was_named and not begins_like_json(head) and not readable_text(head):
            return ForeignFile(name, head, was_named)
        if status.st_size > LARGEST_FILE_BYTES:
            raise ForeignFileError(too_large(name, status.st_size))
        content = path if status.st_size >= LARGE_BYTES else head + opened.read(LARGEST_FILE_BYTES + 1 - len(head))
    return ForeignFile(name, content, was_named)


def _unreadable(name: str, error: OSError) -> ForeignFileError:
    return ForeignFileError(f"{printable(name)}: cannot be read: {error.strerror}")
