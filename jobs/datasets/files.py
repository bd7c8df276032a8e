"""Reads a dataset's file, gzipped or not, into rows: JSON lines, a JSON list, CSV or Parquet, by how it begins.

The first invalid record is reported with its line, and the file is refused. One in a thousand is skipped and counted.
"""

from __future__ import annotations

import csv
import functools
import gzip
import hashlib
import io
import json
import stat
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from host.os_errors import is_of_host
from jobs.datasets.formats import Row, RowError, RowReader
from jobs.datasets.traces import sessions_of
from lab.errors import HostError, UserError
from lab.quality.code_answers import has_tests
from lab.study.model_base import Frozen

#: Records read at once from a Parquet file, and the most bytes that they may take: a file of 500 bytes can hold 100,000
#: times the same long text.
_BATCH, _BATCH_BYTES = 1024, 2**28
#: The most characters of text in the rows of a dataset, which stay in memory.
_MOST_CHARACTERS = 2**30
#: The largest file.
_MOST_BYTES = 2**31
#: The most bytes that a gzip file unpacks to.
_MOST_UNPACKED_BYTES = 2**28
#: Of this many records one invalid one is skipped, up to this number in all.
_ONE_IN, _MOST_INVALID = 1_000, 100
#: The number of characters from which a file's format is recognised.
_HEAD = 4096
#: Files in memory: every check of a study reads its datasets, the list of datasets reads all, and they rarely change.
_REMEMBERED_SMALL, _REMEMBERED_LARGE = 64, 4
#: Files from this size on are large: some published ones have 600 MB.
_LARGE_BYTES = 1 << 20


class Stock(Frozen):
    """A file's contents in numbers. `categories`: the number of rows of each; rows without a category are in none."""

    rows: int
    left_out: int  # records that the dataset's own rule excludes
    invalid: int = 0  # records that are not valid, and were skipped
    first_invalid: str = ""  # which one, and why
    categories: dict[str, int]
    has_output_lengths: bool  # every row has one
    has_replies: bool  # some of these lengths have to be counted
    has_times: bool  # every row has one
    has_lengths_only: bool  # rows give the length of a prompt, not its text
    sessions: int  # rows of several turns
    most_turns: int
    has_recorded_answers: bool  # some of these sessions record the answers before their later turns
    #: By category ("" without one): the number of conversations by their number of turns.
    turns: dict[str, dict[int, int]]
    wait_s: float  # the mean wait before a later turn
    has_expected: bool  # some rows have an expected answer
    has_tests: bool  # some of these can be tests


@dataclass(frozen=True)
class DatasetFile:
    """The content of a file."""

    rows: tuple[Row, ...]
    left_out: int
    sha256: str
    invalid: tuple[str, ...] = ()  # which records were skipped, and why

    @functools.cached_property
    def stock(self) -> Stock:
        categories = Counter(row.category for row in self.rows if row.category is not None)
        return Stock(
            rows=len(self.rows),
            left_out=self.left_out,
            invalid=len(self.invalid),
            first_invalid=next(iter(self.invalid), ""),
            categories=dict(sorted(categories.items())),
            has_output_lengths=all(row.has_output_length for row in self.rows),
            has_replies=any(row.reply is not None for row in self.rows),
            has_times=all(row.time_s is not None for row in self.rows),
            has_lengths_only=all(row.input_tokens is not None for row in self.rows),
            sessions=sum(len(row.turns) > 1 for row in self.rows),
            most_turns=max((len(row.turns) for row in self.rows), default=1) or 1,
            has_recorded_answers=any(len(row.turns) > 1 and row.turns[0].reply is not None for row in self.rows),
            turns=_turns(self.rows),
            wait_s=_mean_wait_s(self.rows),
            has_expected=any(row.expected is not None for row in self.rows),
            has_tests=any(row.expected is not None and has_tests(row.expected) for row in self.rows),
        )


def _turns(rows: Iterable[Row]) -> dict[str, dict[int, int]]:
    counted: dict[str, Counter[int]] = {}
    for row in rows:
        if row.turns:
            counted.setdefault(row.category or "", Counter())[len(row.turns)] += 1
    return {category: dict(sorted(turns.items())) for category, turns in sorted(counted.items())}


def _mean_wait_s(rows: Iterable[Row]) -> float:
    waits_s = [turn.wait_s for row in rows for turn in row.turns[1:]]
    return sum(waits_s) / len(waits_s) if waits_s else 0.0


def read_file(path: Path, read_row: RowReader, called: str) -> DatasetFile:
    """Read every row of the file. Raises UserError naming what is wrong and in which line; `called` names the
    dataset.
    """
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise UserError(f"{called} is not a regular file: a dataset must be one")
        if about.st_size > _MOST_BYTES:
            raise UserError(f"{called} has {about.st_size / 2**30:.1f} GiB: a dataset has {_MOST_BYTES >> 30} at most")
        read = _read_large if about.st_size >= _LARGE_BYTES else _read_small
        return read(path.absolute(), (about.st_size, about.st_mtime_ns), read_row, called)
    except FileNotFoundError:
        raise UserError(
            f"{called}: there is no such file; use a JSONL file, or one of `drafthouse datasets`, like reference"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        kind = HostError if is_of_host(error) else UserError
        raise kind(f"{called} cannot be read: {error}") from None


def _read_file(path: Path, _changed: tuple[int, int], read_row: RowReader, called: str) -> DatasetFile:
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES)  # it may grow while it is read
    rows: list[Row] = []
    invalid: list[str] = []
    records, left_out, room = 0, 0, _MOST_CHARACTERS
    for where, record in _records(_unpacked(content, called), called):
        records += 1
        try:
            if isinstance(record, RowError):
                raise record
            read = read_row(record)
        except RowError as error:
            invalid.append(f"{where}: {error}")
            if len(invalid) > _MOST_INVALID:
                break
            continue
        found = read if isinstance(read, tuple) else () if read is None else (read,)
        room -= sum(map(_characters, found))
        if room < 0:
            raise UserError(
                f"{called}, {where}: its texts have more than {_MOST_CHARACTERS:,} characters so far, the limit of a "
                "dataset: keep fewer rows"
            )
        left_out += not found
        rows += found
    if len(invalid) * _ONE_IN > records or len(invalid) > _MOST_INVALID:
        raise UserError(f"{called}, {invalid[0]}")
    if not rows:
        raise UserError(f"{called} has no usable row" + (f" ({left_out} were left out)" if left_out else ""))
    return DatasetFile(sessions_of(rows), left_out, hashlib.sha256(content).hexdigest(), tuple(invalid))


def _unpacked(content: bytes, called: str) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            unpacked = file.read(_MOST_UNPACKED_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{called} is not a gzip file that can be unpacked: {error}") from None
    if len(unpacked) > _MOST_UNPACKED_BYTES:
        raise UserError(f"{called} unpacks to more than {_MOST_UNPACKED_BYTES >> 20} MiB: unpack it first")
    return unpacked


def _characters(row: Row) -> int:
    turns = sum(len(turn.reply or "") + sum(len(said.content) for said in turn.messages) for turn in row.turns[1:])
    return len(row.text) + len(row.reply or "") + turns


_read_small = functools.lru_cache(_REMEMBERED_SMALL)(_read_file)
_read_large = functools.lru_cache(_REMEMBERED_LARGE)(_read_file)


def _records(content: bytes, called: str) -> Iterator[tuple[str, Any]]:
    """Yield each record with its position in the file; a RowError for one that cannot be decoded."""
    if content.startswith(b"PAR1"):
        return _parquet(content, called)
    text = content.decode("utf-8-sig")
    start = text[:_HEAD].lstrip()[:15].lower()
    if start.startswith(("<!doctype", "<html")):
        raise UserError(f"{called} is a web page, not the data: download the file itself (its raw form)")
    if start.startswith("["):
        return _json_list(text, called)
    return _json_lines(text) if start.startswith("{") or not start else _json_lines_or_csv(text, called)


def _json_lines_or_csv(text: str, called: str) -> Iterator[tuple[str, Any]]:
    """Yield records of JSON lines or of CSV, which begins with names; a broken line of JSON is reported as JSON."""
    head = text.split("\n", 1)[0]
    return _csv(text, called) if "," in head and not head.lstrip().startswith(('"', "{")) else _json_lines(text)


def _json_lines(text: str) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield f"line {number}", _json(line)


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return RowError(f"this is not valid JSON: {error}")


def _json_list(text: str, called: str) -> Iterator[tuple[str, Any]]:
    """Yield the list's entries, decoded one by one, because 600 MB would become several GB of objects."""
    decoder, blank = json.JSONDecoder(), " \t\r\n"
    at, line, counted_to, number = text.index("[") + 1, 1, 0, 0
    while True:
        while at < len(text) and text[at] in blank + ("," if number else ""):
            at += 1
        if text[at : at + 1] == "]":
            return
        number += 1
        line += text.count("\n", counted_to, at)
        counted_to = at
        where = f"line {line} (entry {number})"
        try:
            record, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{called}, {where}: this is not valid JSON: {error}") from None
        yield where, record


def _csv(text: str, called: str) -> Iterator[tuple[str, Any]]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = next(lines)
        for values in filter(None, lines):  # blank lines do not count
            if len(values) != len(names):
                why = RowError(f"this row does not have the {len(names)} columns of line 1")
                yield f"line {lines.line_num}", why
            else:
                yield f"line {lines.line_num}", dict(zip(names, values, strict=True))
    except csv.Error as error:
        raise UserError(f"{called}, line {lines.line_num}: this is not valid CSV: {error}") from None


def _parquet(content: bytes, called: str) -> Iterator[tuple[str, Any]]:
    number = 0
    try:
        file = parquet.ParquetFile(io.BytesIO(content))
        groups = (file.metadata.row_group(index) for index in range(file.metadata.num_row_groups))
        longest = max((group.total_byte_size for group in groups), default=0)  # no value is longer than its group
        for batch in file.iter_batches(max(1, min(_BATCH, _BATCH_BYTES // max(1, longest)))):
            for record in batch.to_pylist():
                number += 1
                yield f"row {number}", record
    except pa.ArrowException as error:
        raise UserError(f"{called} is not a Parquet file that can be read: {error}") from None
