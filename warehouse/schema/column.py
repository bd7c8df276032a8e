"""Columns of the warehouse, each declared once: name, type, meaning, and how its value is read from a record."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, get_type_hints

import pyarrow as pa
import sqlalchemy as sa
from pydantic import BaseModel

from lab.metrics.record_columns import column_field
from lab.metrics.records import record_fields

#: Types by their short names, in SQLAlchemy and in Arrow.
KINDS: dict[str, tuple[Any, pa.DataType]] = {
    "text": (sa.String, pa.string()),
    "int": (sa.Integer, pa.int32()),
    "bigint": (sa.BigInteger, pa.int64()),
    "double": (sa.Double, pa.float64()),
    "bool": (sa.Boolean, pa.bool_()),
    "date": (sa.Date, pa.date32()),
    "moment": (sa.DateTime(timezone=True), pa.timestamp("us", tz="UTC")),
    "texts": (sa.ARRAY(sa.String), pa.list_(pa.string())),
    "ints": (sa.ARRAY(sa.Integer), pa.list_(pa.int32())),
    "doubles": (sa.ARRAY(sa.Double), pa.list_(pa.float64())),
    "millionths": (sa.ARRAY(sa.Numeric(18, 6)), pa.list_(pa.decimal128(18, 6))),
}
_KIND_OF_TYPE: dict[pa.DataType, str] = {arrow: kind for kind, (_, arrow) in KINDS.items()}


@dataclass(frozen=True, eq=False)
class Column:
    """One column. `kind` is a key of KINDS, with a question mark if null is allowed; `value` reads it from a record."""

    name: str
    kind: str
    comment: str
    value: Callable[[Any], Any]

    @property
    def nullable(self) -> bool:
        return self.kind.endswith("?")

    def or_null(self) -> Column:
        """Return the column with null allowed."""
        return self if self.nullable else replace(self, kind=f"{self.kind}?")

    @property
    def types(self) -> tuple[Any, pa.DataType]:
        return KINDS[self.kind.removesuffix("?")]


def column(name: str, kind: str, comment: str, value: str | Callable[[Any], Any] | None = None) -> Column:
    """Declare a column whose value is the record's attribute `value` (a dotted path, by default `name`) or a function.

    If a part of the path is None, so is the value.
    """
    return Column(name, kind, comment, value if callable(value) else _path(value or name))


def recorded(record: type, path: str = "") -> dict[str, Column]:
    """Return a column for every field of a record that has a RecordField, by its path, in order.

    A part of a record is read from the record by its `path`. A field whose column ends with `_json` is stored as JSON.
    """
    hints = get_type_hints(record)
    columns: dict[str, Column] = {}
    for name, declared in record_fields(record).items():
        shown, read = declared.column or name, _path(f"{path}{name}")
        comment = declared.comment if declared.unit is None else f"{declared.comment} [{declared.unit}]"
        if shown.endswith("_json"):
            columns[f"{path}{name}"] = Column(shown, "text?", comment, as_json(read))
        else:
            field = column_field(name, hints[name])
            columns[f"{path}{name}"] = Column(shown, _KIND_OF_TYPE[field.type] + "?" * field.nullable, comment, read)
    return columns


def as_json(read: Callable[[Any], Any]) -> Callable[[Any], str | None]:
    """Return a reader that turns what `read` returns, pydantic models or plain values, into JSON text."""

    def text(record: Any) -> str | None:
        value = read(record)
        if value is None:
            return None
        if isinstance(value, BaseModel):
            return value.model_dump_json()
        return json.dumps(value, ensure_ascii=False, default=lambda part: part.model_dump(mode="json"))

    return text


def rows(columns: Sequence[Column], records: Sequence[Any]) -> pa.Table:
    """Return the records as rows for DuckDB; of a dict, each column is the value of its name.

    Raises ValueError if a column that is not nullable has a null.
    """
    struct = _struct(tuple(columns))
    if not records:
        return pa.schema(struct).empty_table()
    structs: Any = pa.array([_values(columns, record) for record in records], type=struct)
    batch = pa.RecordBatch.from_struct_array(structs)
    for column, array in zip(columns, batch.columns, strict=True):
        if array.null_count and not column.nullable:
            raise ValueError(f"column {column.name} is not nullable, but a record has no value for it")
    return pa.Table.from_batches([batch])


def _values(columns: Sequence[Column], record: Any) -> tuple[Any, ...]:
    if isinstance(record, Mapping):
        return tuple([record[column.name] for column in columns])
    return tuple([column.value(record) for column in columns])


@functools.lru_cache(maxsize=256)  # it takes as long as the values of a row
def _struct(columns: tuple[Column, ...]) -> pa.StructType:
    return pa.struct([(column.name, column.types[1]) for column in columns])


def _path(path: str) -> Callable[[Any], Any]:
    first, _, rest = path.partition(".")
    if not rest:
        return attrgetter(first)
    read, inner = attrgetter(first), _path(rest)
    return lambda record: None if (part := read(record)) is None else inner(part)
