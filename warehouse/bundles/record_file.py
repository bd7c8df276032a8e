"""Records of one dataclass as a Parquet file, written and read column by column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lab.errors import BundleError

_R = TypeVar("_R")
_BUFFER_BYTES, _PART_ROWS = 2**18, 1000
_LARGE_BYTES = 2**20


def write_columns(path: Path, table: pa.Table) -> None:
    """Write the rows of a table, in half of the time and of the bytes that pyarrow's defaults take.

    Values of a run are rarely equal, so dictionaries and statistics are useless. The high bytes of its times are
    similar, and compress well when stored together; DuckDB cannot read whole numbers in that encoding.
    """
    times = {name: "BYTE_STREAM_SPLIT" for name in map(_name_of_floats, table.schema) if name is not None}
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 1, "column_encoding": times}
    pq.write_table(table, path, use_dictionary=False, write_statistics=False, **options)


def _name_of_floats(field: pa.Field[Any]) -> str | None:
    """Return Parquet's name of a column of fractions, or of lists of them; None for another column."""
    if pa.types.is_list(field.type):
        return f"{field.name}.list.element" if pa.types.is_floating(field.type.value_type) else None
    return field.name if pa.types.is_floating(field.type) else None


def read_columns(path: Path, schema: pa.Schema) -> pa.Table:
    """Read the rows as columns; a column that the file lacks is null. Raises BundleError.

    Reads the file directly: `read_table` makes a dataset of it, which takes twice as long for a small file.
    """
    try:
        with _opened(path) as file:
            stored = set(file.schema_arrow.names)  # made anew at each call
            names = [name for name in schema.names if name in stored]
            # Otherwise the memory that reading a column needs would be held until all columns are read.
            together = [[name] for name in names] if path.stat().st_size >= _LARGE_BYTES else [names]
            # One thread, because other processors may be measuring.
            parts = [file.read(some, use_threads=False) for some in together]
            num_rows = file.metadata.num_rows
        read = {name: part[name] for some, part in zip(together, parts, strict=True) for name in some}
        columns: list[Any] = [
            read[field.name].cast(field.type) if field.name in read else pa.nulls(num_rows, field.type)
            for field in schema
        ]
        return pa.table(columns, schema=schema)
    except (OSError, pa.ArrowException, KeyError) as error:  # the last one if two columns have one name
        raise BundleError(f"{path} cannot be read: {error}") from None


def _opened(path: Path) -> pq.ParquetFile:
    """Open a file with a small read-ahead buffer; without one, a whole column would be read ahead."""
    return pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES)


def read_parts(path: Path) -> Iterator[pa.Table]:
    """Read the rows as columns, some rows at a time. Raises BundleError."""
    try:
        with _opened(path) as file:
            for batch in file.iter_batches(_PART_ROWS, use_threads=False):
                yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowException) as error:
        raise BundleError(f"{path} cannot be read: {error}") from None


def refuse_bomb(path: Path, most_bytes: int) -> int:
    """Return the size of the rows in memory. Raises BundleError if the table is larger than `most_bytes`, or not
    readable.

    The sizes that a file states are believed until the first page is read; `table_sizes` does not depend on them. Some
    kilobytes can hold a long text a million times. So texts are read as dictionaries, some rows at a time, and what
    they would take is computed from the lengths of the dictionaries' entries.
    """
    try:
        with pq.ParquetFile(path) as file:
            columns = [file.metadata.schema.column(number) for number in range(file.metadata.num_columns)]
            texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
            least_bytes = _least_bytes(file.metadata)
        _refuse_larger(path, least_bytes, most_bytes)  # before even one row is read
        with pq.ParquetFile(path, read_dictionary=texts, pre_buffer=False, buffer_size=_BUFFER_BYTES) as file:
            size_bytes = 0
            for batch in file.iter_batches(_PART_ROWS, use_threads=False):
                size_bytes += sum(map(_expanded_bytes, batch.columns))
                _refuse_larger(path, size_bytes, most_bytes)
        return max(least_bytes, size_bytes)
    except MemoryError:
        raise BundleError(f"{path.name} takes more memory to read than is available") from None
    except (OSError, pa.ArrowException, KeyError) as error:
        raise BundleError(f"{path} cannot be read: {error}") from None


def _least_bytes(stored: pq.FileMetaData) -> int:
    """Return the least size of the values, by the counts and page sizes that the file states."""
    groups = [stored.row_group(number) for number in range(stored.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    return sum(max(chunk.num_values, chunk.total_uncompressed_size) for chunk in chunks)


def _refuse_larger(path: Path, size_bytes: int, most_bytes: int) -> None:
    if size_bytes > most_bytes:
        raise BundleError(f"{path.name} has more than {most_bytes / 2**20:,.0f} MiB when it is read")


def _expanded_bytes(column: Any) -> int:
    """Return the size of a column with its dictionary-encoded texts decoded."""
    if pa.types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary)
        return int(pc.sum(lengths.take(column.indices)).as_py() or 0) + 4 * len(column)
    if pa.types.is_list(column.type):
        return 4 * len(column) + _expanded_bytes(column.flatten())
    return int(column.nbytes)


def read_records(path: Path, record: type[_R], schema: pa.Schema) -> tuple[_R, ...]:
    """Read the rows as records; fields that are not in the schema get their defaults. Raises BundleError."""
    table = read_columns(path, schema)
    try:
        columns = [_values(column) for column in table.columns]
    except pa.ArrowException as error:
        raise BundleError(f"{path} cannot be read: {error}") from None
    return tuple(record(**dict(zip(schema.names, row, strict=True))) for row in zip(*columns, strict=True))


def _values(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Return Python values, lists as tuples, because records are immutable."""
    values = column.to_pylist()
    if not pa.types.is_list(column.type):
        return values
    return [None if value is None else tuple(value) for value in values]
