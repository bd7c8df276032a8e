"""Reads a run's part of an engine's log, without reading the whole log.

An engine that serves many runs writes one log, which may grow without bound. A bundle has the beginning of the log,
where the engine logs its configuration, and the measured window with some context.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from lab.metrics.records import LEFT_OUT_LINE, EngineLog

#: Bytes stored of the beginning of the log, and before and after the window.
HEAD_BYTES, CONTEXT_BYTES = 512 * 1024, 64 * 1024
#: Most bytes stored of a window: of a longer one, half of them from its beginning and half from its end.
WINDOW_BYTES = 8 * 1024 * 1024
#: A shorter gap is not left out: it may be the line that marks an earlier cut, and cutting twice changes nothing.
_SHORTEST_GAP_BYTES = 1024

Range = tuple[int, int]


def read_engine_log(path: Path, begin_bytes: int | None, end_bytes: int | None) -> EngineLog | None:
    """Return the part of the log for a run whose window lies between these lengths; None if the log is empty.

    If they are unknown, because the run failed before or within the window, this is the end of the log. A line
    marks each omission and its size. Raises OSError.
    """
    with path.open("rb") as file:
        size = file.seek(0, 2)
        ranges = list(_joined(_wanted(size, begin_bytes, end_bytes)))
        content, parts = bytearray(), list[tuple[Range, int]]()
        left_at = 0
        for first, last in ranges:
            if first > left_at:
                content += f"\n{LEFT_OUT_LINE.format(first - left_at)}\n".encode()
            parts.append(((first, last), len(content)))
            content += _read(file, first, last)
            left_at = last
    if not content:
        return None
    return EngineLog(bytes(content), _moved(parts, begin_bytes), _moved(parts, end_bytes))


def read_tail(path: Path, most_bytes: int) -> bytes:
    """Return the end of a log. Raises OSError."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        return _read(file, max(0, size - most_bytes), size)


def _wanted(size: int, begin_bytes: int | None, end_bytes: int | None) -> Iterator[Range]:
    """Return the ranges of the log, in order of their beginnings; they may overlap and reach beyond its end."""
    end = size if end_bytes is None or not 0 <= end_bytes <= size else end_bytes
    begin = max(0, end - WINDOW_BYTES) if begin_bytes is None or not 0 <= begin_bytes <= end else begin_bytes
    yield 0, min(size, HEAD_BYTES)
    yield max(0, begin - CONTEXT_BYTES), min(end, begin + WINDOW_BYTES // 2)
    yield max(begin, end - WINDOW_BYTES // 2), min(size, end + CONTEXT_BYTES)
    yield size, size


def _joined(ranges: Iterable[Range]) -> Iterator[Range]:
    """Join ranges that overlap or nearly touch."""
    first, last = 0, 0
    for begin, end in ranges:
        if begin - last >= _SHORTEST_GAP_BYTES:
            yield first, last
            first = begin
        last = max(last, end)
    yield first, last


def _moved(parts: Iterable[tuple[Range, int]], at_bytes: int | None) -> int | None:
    """Map a position in the whole log to the stored part; None if it is unknown or was left out."""
    if at_bytes is None:
        return None
    return next((start + at_bytes - first for (first, last), start in parts if first <= at_bytes <= last), None)


def _read(file: BinaryIO, first: int, last: int) -> bytes:
    file.seek(first)
    return file.read(last - first)
