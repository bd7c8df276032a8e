"""Records of one dataclass as a Parquet file, written and read column by column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from lab.errors import BundleError
from warehouse.schema.column import arrow_type, is_nullable

_R = TypeVar("_R")


def arrow_schema(kinds: Mapping[str, str]) -> pa.Schema:
    """The Parquet schema of columns given by name and kind (warehouse.schema.column.KINDS)."""
    return pa.schema([pa.field(name, arrow_type(kind), nullable=is_nullable(kind)) for name, kind in kinds.items()])


def write_records(path: Path, records: Sequence[Any], schema: pa.Schema) -> None:
    """Write one row per record, each column from the attribute of its name."""
    columns = [pa.array([getattr(record, field.name) for record in records], type=field.type) for field in schema]
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), path)


def read_records(path: Path, record: type[_R], schema: pa.Schema) -> tuple[_R, ...]:
    """Read the rows as records; fields that are not in the schema get their defaults. Raises BundleError."""
    try:
        table = pq.read_table(path, schema=schema)
        columns = [_values(column) for column in table.columns]
    except (OSError, pa.ArrowException) as error:
        raise BundleError(f"{path} cannot be read: {error}") from None
    return tuple(record(**dict(zip(schema.names, row, strict=True))) for row in zip(*columns, strict=True))


def _values(column: pa.ChunkedArray[Any]) -> list[Any]:
    """The values in Python, lists as tuples, because records are immutable."""
    values = column.to_pylist()
    if not pa.types.is_list(column.type):
        return values
    return [None if value is None else tuple(value) for value in values]
