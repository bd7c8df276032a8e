"""Read a large JSON file piece by piece: neither its text nor a Python number for each of its gaps is in memory.

Only a file that is one object is read this way, whose lists have small elements, as results with all their requests
have. What is read is what Python's own reader gives, except that lists of gaps are arrays of floats. Anything else, an
error included, is left to the reader of whole files.
"""

from __future__ import annotations

import codecs
import json
import math
from array import array
from collections.abc import Callable, Iterator

#: An element that is longer than this is not small.
_LONGEST = 4 * 2**20
#: The keys of lists that have a list of gaps between chunks for each request: nearly all of a file.
_GAPS = frozenset({"itls"})
_WHITESPACE = " \t\r\n"
_FOLLOWS = frozenset(_WHITESPACE + ",:]}")
_NUMBER_BEGINS = frozenset("-0123456789")


class _ReadWholeError(Exception):
    """The file is to be read as a whole."""


def read_in_pieces(pieces: Iterator[bytes], decoder: json.JSONDecoder) -> dict[str, object] | None:
    """Return the only object of the file, or None if the file is to be read as a whole."""
    try:
        return _object(_Window(pieces, decoder))
    except Exception:  # noqa: BLE001 - whatever is wrong with the file: the reader of whole files says where
        return None


class _Window:
    """A part of the file's text that moves over it."""

    def __init__(self, pieces: Iterator[bytes], decoder: json.JSONDecoder) -> None:
        self._pieces = pieces
        self._to_text = codecs.getincrementaldecoder("utf-8-sig")()
        self._decoder = decoder
        self._text, self._at = "", 0

    def peek(self) -> str:
        """Return the next character that is no white space, without a step over it; an empty text at the end."""
        while True:
            while self._at < len(self._text):
                if (character := self._text[self._at]) not in _WHITESPACE:
                    return character
                self._at += 1
            if not self._move():
                return ""

    def step(self, expected: str) -> str:
        """Step over the next character, which is one of these."""
        character = self.peek()
        if not character or character not in expected:
            raise _ReadWholeError
        self._at += 1
        return character

    def value(self) -> object:
        """Step over the next value."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError:
                if not self._move():
                    raise
                continue
            if self._text[end : end + 1] in _FOLLOWS or not self._move():  # else a number may go on
                self._at = end
                return value

    def begins_numbers(self) -> bool:
        """Return whether the next value is a list that begins with a number."""
        if self.peek() != "[":
            return False
        if self._at + 1 == len(self._text):
            self._move()
        return self._text[self._at + 1 : self._at + 2] in _NUMBER_BEGINS

    def _move(self) -> bool:
        """Add a piece to the text, and leave out what was read. Returns False at the end of the file."""
        if len(self._text) - self._at > _LONGEST:
            raise _ReadWholeError
        piece = next(self._pieces, b"")
        added = self._to_text.decode(piece, final=not len(piece))
        self._text, self._at = self._text[self._at :] + added, 0
        return bool(len(piece))


def _object(window: _Window) -> dict[str, object]:
    found: dict[str, object] = {}
    window.step("{")
    mark = ","
    while mark == ",":
        key = window.value()
        if not isinstance(key, str) or key in found:
            raise _ReadWholeError
        window.step(":")
        if window.peek() != "[" or window.begins_numbers():
            found[key] = window.value()
        else:
            found[key] = _list(window, _packed if key in _GAPS else _same)
        mark = window.step(",}")
    if window.peek():
        raise _ReadWholeError
    return found


def _list(window: _Window, change: Callable[[object], object]) -> list[object]:
    found: list[object] = []
    mark = window.step("[")
    if window.peek() == "]":
        mark = window.step("]")
    while mark != "]":
        found.append(change(window.value()))
        mark = window.step(",]")
    return found


def _same(value: object) -> object:
    return value


def _packed(value: object) -> object:
    """Return a list of finite floats as an array, and anything else as it is."""
    if isinstance(value, list) and set(map(type, value)) == {float} and math.isfinite(sum(value)):
        return array("d", value)
    return value
