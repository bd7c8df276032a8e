"""Read foreign JSON: one document or several, one after another. Stricter than Python's own reader.

Refused, with line or key: text that is not UTF-8, duplicate keys, NaN, infinite numbers (except a request rate, where
tools write them), half a surrogate pair, and nesting or numbers of values that would exhaust the memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interchange.files import ForeignFile, printable
from interchange.json_pieces import read_in_pieces
from lab.errors import ForeignFileError

#: The deepest of the supported formats has about 12 levels.
DEEPEST = 64
#: The most values in one file. Each takes up to about 150 bytes in memory.
MOST_VALUES = 5_000_000
#: Keys under which Infinity means "all at once".
_MAY_BE_INFINITE = frozenset({"request_rate"})
_WHITESPACE = " \t\r\n"

Step = str | int


@dataclass(frozen=True)
class Document:
    """One JSON value of a file and the line where it begins, from 1."""

    file: ForeignFile
    line: int
    value: object

    def error(self, path: Sequence[Step], why: str) -> ForeignFileError:
        """An error that names the file, the line or key, and the reason."""
        where = [f"line {self.line}"] if self.line > 1 else []
        where += [shown_path(path)] if path else []
        return ForeignFileError(": ".join((printable(self.file.name), *where, why)))


class _TwiceError(Exception):
    """A duplicate key in one object."""


def documents(file: ForeignFile) -> tuple[Document, ...]:
    """Every JSON value of the file. Raises ForeignFileError."""
    commas = sum(piece.count(mark) for piece in file.pieces() for mark in (b",", b"[", b"{"))
    if commas > MOST_VALUES:
        raise ForeignFileError(
            f"{printable(file.name)}: about {commas} values are more than the limit of {MOST_VALUES} per file: "
            "split it, or save it without its requests"
        )
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    value = read_in_pieces(file.pieces(), decoder) if file.is_large else None
    decoded = _decoded(file, _text(file)) if value is None else [Document(file, _first_line(file), value)]
    if not decoded:
        raise ForeignFileError(f"{printable(file.name)}: the file is empty")
    for document in decoded:
        _check(document)
    return tuple(decoded)


def _first_line(file: ForeignFile) -> int:
    line = 1
    for piece in file.pieces():
        before, found, _ = piece.partition(b"{")
        line += before.count(b"\n")
        if found:
            break
    return line


def shown_path(path: Sequence[Step]) -> str:
    """The path as text, like `requests[2].error`."""
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return printable(shown.removeprefix("."))


def _text(file: ForeignFile) -> str:
    content = file.whole()
    if b"\0" in content[:4096] or content[:1] == b"\x80":
        raise ForeignFileError(
            f"{printable(file.name)}: this is a binary file (archives and pickles are never opened): unpack it and "
            "import the JSON file in it"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ForeignFileError(f"{printable(file.name)}: line {line}: this is not UTF-8: save it as UTF-8") from error


def _decoded(file: ForeignFile, text: str) -> list[Document]:
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    decoded: list[Document] = []
    position, line, counted = _skipped(text, 0), 1, 0
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, end = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            why = "the file ends too early" if not text[error.pos :].strip() else f"this is not JSON ({error.msg})"
            raise ForeignFileError(f"{printable(file.name)}: line {error.lineno}: {why}") from error
        except _TwiceError as error:
            raise ForeignFileError(f"{printable(file.name)}: duplicate key {error} in one object") from error
        except RecursionError as error:
            raise ForeignFileError(f"{printable(file.name)}: line {line}: {_TOO_DEEP}") from error
        except ValueError as error:  # Python's own limit on the digits of an integer
            raise ForeignFileError(f"{printable(file.name)}: line {line}: a number has too many digits") from error
        decoded.append(Document(file, line, value))
        position = _skipped(text, end)
    return decoded


_TOO_DEEP = f"it is nested more than {DEEPEST} levels deep, which is more than any supported format"


def _skipped(text: str, position: int) -> int:
    while position < len(text) and text[position] in _WHITESPACE:
        position += 1
    return position


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        raise _TwiceError(printable(repr(next(key for key, _ in pairs if key in seen or seen.add(key)))))  # type: ignore[func-returns-value]
    return made


def _check(document: Document) -> None:
    """Refuse numbers and texts that cannot be stored, and deep nesting.

    Walks without recursion and without a list of pending values, which could be larger than the file.
    """
    _check_one(document, document.value, ())
    path: list[Step] = []
    open_parts = [_inside(document.value)]
    while open_parts:
        step, value = next(open_parts[-1], _NO_MORE)
        if step is None:
            open_parts.pop()
            del path[-1:]
            continue
        path.append(step)
        _check_one(document, value, path)
        if not isinstance(value, (dict, list)):
            path.pop()
        elif len(path) >= DEEPEST:
            raise document.error(path[:3], _TOO_DEEP)
        else:
            open_parts.append(_inside(value))


_NO_MORE: tuple[None, None] = (None, None)


def _inside(value: object) -> Iterator[tuple[Step, object] | tuple[None, None]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list) and not _is_plain(value):
        yield from enumerate(value)


def _is_plain(values: list[object]) -> bool:
    """Return whether a list holds numbers alone, and every one of them can be stored: most values of a file do."""
    kinds = set(map(type, values))
    if kinds == {float}:
        numbers: list[float] = values  # type: ignore[assignment]
        return math.isfinite(sum(numbers))
    return kinds == {int}


def _check_one(document: Document, value: object, path: Sequence[Step]) -> None:
    if isinstance(value, float):
        _check_number(document, value, path)
    elif isinstance(value, str):
        _check_text(document, value, path)
    elif isinstance(value, dict):
        for key in value:
            _check_text(document, key, path)


def _check_number(document: Document, value: float, path: Sequence[Step]) -> None:
    if math.isfinite(value) or (value == math.inf and path and path[-1] in _MAY_BE_INFINITE):
        return
    raise document.error(path, f"{value} cannot be stored as a number")


def _check_text(document: Document, text: str, path: Sequence[Step]) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise document.error(path, "half a surrogate pair is not text") from error
