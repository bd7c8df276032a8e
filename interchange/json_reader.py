"""Read foreign JSON, one document or several in sequence, more strictly than Python's own reader.

NaN is null: tools write it for a statistic of too few values. Refused, with line or key: text that is not UTF-8,
duplicate keys, infinite numbers (except where tools write them), half a surrogate pair, and nesting or numbers of
values that would exhaust the memory.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import math
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from interchange.files import ForeignFile, printable
from interchange.kinds import encoding_of
from lab.errors import ForeignFileError

#: The deepest of the supported formats has about 12 levels.
DEEPEST = 64
#: The most values in one file. Each takes up to about 150 bytes in memory.
MOST_VALUES = 5_000_000
#: Keys under which tools write Infinity: "all at once" and "at a constant rate".
_MAY_BE_INFINITE = frozenset({"request_rate", "burstiness"})
#: The key of the list that holds each request's list of gaps between chunks: nearly all of a large file.
_GAPS = "itls"
#: A large file with a longer value than this is read as a whole.
_LONGEST = 4 * 2**20
_FOLLOWS = frozenset(" \t\r\n,:]}")
_SPACE = re.compile(r"[ \t\r\n]*")
_ONE, _TWO = re.compile(r"[ \t\r\n]*(\S)"), re.compile(r"[ \t\r\n]*(\S)[ \t\r\n]*(\S)")
_TOO_DEEP = f"it is nested more than {DEEPEST} levels deep, which is more than any supported format"

Step = str | int


@dataclass(frozen=True)
class Document:
    """One JSON value of a file and the line where it begins, from 1."""

    file: ForeignFile
    line: int
    value: object

    def error(self, path: Sequence[Step], why: str) -> ForeignFileError:
        """Return an error that names the file, the line or key, and the reason."""
        where = [f"line {self.line}"] if self.line > 1 else []
        where += [shown_path(path)] if path else []
        return ForeignFileError(": ".join((printable(self.file.name), *where, why)))

    def not_a_result(self, kind: str) -> NotAResultError:
        """Return an error that skips the file in a folder, listed under `kind`."""
        return NotAResultError(str(self.error((), kind)), kind)


class NotAResultError(ForeignFileError):
    """A file that is no result: the text is for the user who named it, `kind` for a list of such files of a folder."""

    def __init__(self, text: str, kind: str) -> None:
        super().__init__(text)
        self.kind = kind


class _TwiceError(Exception):
    """A duplicate key in one object."""


class _ReadWholeError(Exception):
    """The file has to be read as a whole."""


def documents(file: ForeignFile) -> tuple[Document, ...]:
    """Return every JSON value of the file. Raises ForeignFileError."""
    commas = sum(piece.count(mark) for piece in file.pieces() for mark in (b",", b"[", b"{"))
    if commas > MOST_VALUES:
        raise ForeignFileError(
            f"{printable(file.name)}: about {commas} values are more than the limit of {MOST_VALUES} per file: "
            "split it, or save it without its requests"
        )
    decoded = _in_pieces(file) if file.is_large else None
    found = (decoded,) if decoded else _whole(file)
    if not found:
        raise ForeignFileError(f"{printable(file.name)}: the file is empty")
    return tuple(map(checked, found))


def checked(document: Document) -> Document:
    """Return the document if all of it can be stored. Raises ForeignFileError."""
    _check(document, document.value, ())
    return document


def shown_path(path: Sequence[Step]) -> str:
    """Return the path as text, like `requests[2].error`."""
    shown = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return printable(shown.removeprefix("."))


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        raise _TwiceError(printable(repr(next(key for key, _ in pairs if key in seen or seen.add(key)))))  # type: ignore[func-returns-value]
    return made


def _constant(name: str) -> float | None:
    return None if name == "NaN" else float(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant)


def whole_text(file: ForeignFile) -> str:
    """Return the file's text. Raises ForeignFileError."""
    content = file.whole()
    try:
        return content.decode(encoding_of(content))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ForeignFileError(f"{printable(file.name)}: line {line}: this is not UTF-8: save it as UTF-8") from error


def _whole(file: ForeignFile) -> tuple[Document, ...]:
    text = whole_text(file)
    decoded: list[Document] = []
    position, line, counted = _skipped(text, 0), 1, 0
    while position < len(text):
        line += text.count("\n", counted, position)
        counted = position
        try:
            value, end = _DECODER.raw_decode(text, position)
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
    return tuple(decoded)


def _skipped(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _in_pieces(file: ForeignFile) -> Document | None:
    """Read a large file that is one object, so that neither its text nor a number for each of its gaps is in memory:
    lists of gaps become arrays of floats. Returns None for any other file, damaged ones included.
    """
    text, found = _Text(file), dict[str, object]()
    try:
        mark = text.mark("{")
        line = text.line
        while mark != "}":
            key = text.value()
            if not isinstance(key, str) or key in found:
                return None
            text.mark(":")
            found[key] = _list(text, _packed if key == _GAPS else None) if text.opens_list() else text.value()
            mark = text.mark(",}")
        return None if text.rest() else Document(file, line, found)
    except Exception:  # noqa: BLE001 - whatever is wrong with the file: the reader of whole files says where
        return None


class _Text:
    """The text of a file; only the part that is needed next is in memory."""

    def __init__(self, file: ForeignFile) -> None:
        self._pieces = codecs.iterdecode(file.pieces(), "utf-8-sig")
        self._text, self._at = "", 0

    @property
    def line(self) -> int:
        """Return the number of the line after the first mark."""
        return self._text.count("\n", 0, self._at) + 1

    def mark(self, expected: str) -> str:
        """Step over the next character, which must be one of these."""
        found = self._match(_ONE)
        if found[1] not in expected:
            raise _ReadWholeError
        self._at = found.end()
        return found[1]

    def opens_list(self) -> bool:
        """Return whether the next value is a list that does not begin with a number."""
        found = self._match(_TWO)
        return found[1] == "[" and found[2] in '"[{'

    def value(self) -> object:
        """Step over the next value."""
        while True:
            with contextlib.suppress(json.JSONDecodeError):
                value, end = _DECODER.raw_decode(self._text, _skipped(self._text, self._at))
                if self._text[end : end + 1] in _FOLLOWS:  # else a number may continue
                    self._at = end
                    return value
            self._extend()

    def rest(self) -> str:
        return "".join((self._text[self._at :], *self._pieces)).strip(" \t\r\n")

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        while (found := pattern.match(self._text, self._at)) is None:
            self._extend()
        return found

    def _extend(self) -> None:
        """Add a piece, and drop what was read. Raises StopIteration at the end of the file."""
        if len(self._text) - self._at > _LONGEST:
            raise _ReadWholeError
        self._text, self._at = self._text[self._at :] + next(self._pieces), 0


def _list(text: _Text, change: Callable[[object], object] | None) -> list[object]:
    found: list[object] = []
    mark = text.mark("[")
    while mark != "]":
        found.append(change(text.value()) if change else text.value())
        mark = text.mark(",]")
    return found


def _packed(value: object) -> object:
    """Return a list of finite floats as an array, and anything else as it is."""
    return array("d", value) if isinstance(value, list) and _is_finite(value) else value


def _is_finite(values: list[float]) -> bool:
    return set(map(type, values)) == {float} and math.isfinite(sum(values))


def _check(document: Document, value: object, path: tuple[Step, ...]) -> None:
    """Refuse numbers and texts that cannot be stored, and deep nesting."""
    if isinstance(value, float):
        if not (math.isfinite(value) or (value == math.inf and path and path[-1] in _MAY_BE_INFINITE)):
            raise document.error(path, f"{value} cannot be stored as a number")
    elif isinstance(value, str):
        _check_text(document, value, path)
    elif isinstance(value, (dict, list)) and len(path) >= DEEPEST:
        raise document.error(path[:3], _TOO_DEEP)
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check_text(document, key, path)
            _check(document, inner, (*path, key))
    elif isinstance(value, list) and set(map(type, value)) != {int} and not _is_finite(value):
        for index, inner in enumerate(value):
            _check(document, inner, (*path, index))


def _check_text(document: Document, text: str, path: tuple[Step, ...]) -> None:
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        raise document.error(path, "half a surrogate pair is not text") from error
