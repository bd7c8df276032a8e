"""An answer of SQL as JSON, CSV, Arrow or Parquet. Its size is counted in that format, and cut at the same limit.

Text is written in pieces of a few rows: a bit in Arrow is an object in Python and six letters in JSON.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from interchange.export import FORMULA
from lab.errors import QueryError
from warehouse.sandbox.runner import MAX_BYTES, SqlResult

Format = Literal["json", "csv", "arrow", "parquet"]
#: The most values of a piece, and its most bytes in Arrow.
_PIECE_VALUES, _PIECE_BYTES = 20_000, 2**20


def written(result: SqlResult, as_format: Format, most_bytes: int = MAX_BYTES) -> tuple[bytes, str]:
    """Return the answer's bytes, and a sentence if rows are left out, or nothing.

    Raises QueryError for what the format cannot hold.
    """
    if as_format == "json":
        return _json(result, most_bytes)
    if as_format == "csv":
        return _csv(result, most_bytes)
    sink = io.BytesIO()
    if as_format == "arrow":
        with pa.ipc.new_stream(sink, result.table.schema) as stream:
            stream.write_table(result.table)
        return sink.getvalue(), result.left_out
    try:
        pq.write_table(result.table, sink)
    except pa.ArrowException as error:
        raise QueryError(
            f"Parquet cannot hold this answer ({str(error)[:200]}): ask for JSON, or select its columns as varchar"
        ) from None
    return sink.getvalue(), result.left_out


def _json(result: SqlResult, most_bytes: int) -> tuple[bytes, str]:
    begin = json.dumps({"columns": result.columns}).encode()[:-1] + b', "rows": ['

    def rows(piece: pa.Table) -> bytes:
        return b"".join(json.dumps(row, allow_nan=False).encode() + b", " for row in SqlResult(piece).rows())

    content, left_out = _fitting(result, begin, rows, most_bytes)
    return b'%b], "left_out": %b}' % (content.removesuffix(b", "), json.dumps(left_out).encode()), left_out


def _csv(result: SqlResult, most_bytes: int) -> tuple[bytes, str]:
    """Write CSV. Text and column names that a spreadsheet would run as a formula get an apostrophe in front."""
    names = [re.sub(FORMULA, r"'\1", name) for name in result.columns]
    begin = _as_csv(pa.table([pa.array([], pa.string())] * len(names), names=names), header=True)

    def rows(piece: pa.Table) -> bytes:
        return _as_csv(pa.table([_plain(piece, name) for name in piece.column_names], names=names))

    return _fitting(result, begin, rows, most_bytes)


def _fitting(result: SqlResult, begin: bytes, rows: Callable[[pa.Table], bytes], most_bytes: int) -> tuple[bytes, str]:
    """Return nearly as many rows as fit. Raises QueryError if not even one does."""
    content, count = bytearray(begin), 0
    for whole in _pieces(result.table):
        piece = whole
        while len(content) + len(text := rows(piece)) > most_bytes and piece.num_rows:
            piece = piece.slice(0, piece.num_rows // 2)
        content += text
        count += piece.num_rows
        if piece.num_rows < whole.num_rows:
            break
    if count == result.table.num_rows:
        return bytes(content), result.left_out
    most = f"{most_bytes / 2**20:g} MiB"
    if not count:
        raise QueryError(f"one row is larger than {most}, the limit of an answer: select less of it")
    return bytes(content), f"only the first {count:,} rows are shown: more would exceed {most} in this format"


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    begin = 0
    while begin < table.num_rows:
        piece = table.slice(begin, max(1, _PIECE_VALUES // max(1, table.num_columns)))
        while piece.nbytes > _PIECE_BYTES and piece.num_rows > 1:
            piece = piece.slice(0, piece.num_rows // 2)
        yield piece
        begin += piece.num_rows


def _as_csv(table: pa.Table, *, header: bool = False) -> bytes:
    sink = io.BytesIO()
    csv.write_csv(table, sink, csv.WriteOptions(include_header=header))
    return sink.getvalue()


def _plain(piece: pa.Table, name: str) -> Any:
    """Return a column in a form that CSV can hold: nested values as JSON, bytes and bits in hexadecimal digits."""
    column = piece.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.replace_substring_regex(column, FORMULA, r"'\1")
    if (pa.types.is_primitive(kind) and not pa.types.is_interval(kind)) or pa.types.is_decimal(kind):
        return column
    values = (row[0] for row in SqlResult(piece.select([name])).rows())
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pc.replace_substring_regex(pa.array(texts, pa.string()), FORMULA, r"'\1")
