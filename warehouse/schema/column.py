"""Columns of the warehouse, each declared once: name, type, meaning, and how its value is read from a record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from lab.metrics.record_schema import record_schema

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


def is_nullable(kind: str) -> bool:
    return kind.endswith("?")


def record_kinds(record: type) -> dict[str, str]:
    """The kind of each field of a dataclass, in order."""
    return {field.name: _KIND_OF_TYPE[field.type] + "?" * field.nullable for field in record_schema(record)}


@dataclass(frozen=True)
class Column:
    """One column. `kind` is a key of KINDS, with a question mark if null is allowed; `value` reads it from a record."""

    name: str
    kind: str
    comment: str
    value: Callable[[Any], Any]

    @property
    def nullable(self) -> bool:
        return is_nullable(self.kind)

    def or_null(self) -> Column:
        """The same column with null allowed."""
        return self if self.nullable else replace(self, kind=f"{self.kind}?")

    @property
    def types(self) -> tuple[Any, pa.DataType]:
        return KINDS[self.kind.removesuffix("?")]


def column(name: str, kind: str, comment: str, value: str | Callable[[Any], Any] | None = None) -> Column:
    """Declare a column whose value is the record's attribute `value` (a dotted path, by default `name`) or a function.

    If a part of the path is None, so is the value.
    """
    return Column(name, kind, comment, value if callable(value) else _path(value or name))


def table(metadata: sa.MetaData, name: str, comment: str, columns: Sequence[Column]) -> sa.Table:
    """Return the table for SQLAlchemy and Alembic."""
    declared = [sa.Column(c.name, c.types[0], nullable=c.nullable, comment=c.comment) for c in columns]
    return sa.Table(name, metadata, *declared, comment=comment)


def rows(columns: Sequence[Column], records: Sequence[Any]) -> pa.Table:
    """Return the records as rows for DuckDB. Raises ValueError if a column that is not nullable has a null."""
    struct = pa.struct([(column.name, column.types[1]) for column in columns])
    values = [tuple(column.value(record) for column in columns) for record in records]
    structs: Any = pa.array(values, type=struct)
    batch = pa.RecordBatch.from_struct_array(structs)
    for column, array in zip(columns, batch.columns, strict=True):
        if array.null_count and not column.nullable:
            raise ValueError(f"column {column.name} is not nullable, but a record has no value for it")
    return pa.Table.from_batches([batch])


def from_dicts(columns: Sequence[Column]) -> list[Column]:
    """Return the same columns, read from dicts with their names as keys."""
    return [Column(c.name, c.kind, c.comment, itemgetter(c.name)) for c in columns]


def _path(path: str) -> Callable[[Any], Any]:
    first, _, rest = path.partition(".")
    if not rest:
        return attrgetter(first)
    read, inner = attrgetter(first), _path(rest)
    return lambda record: None if (part := read(record)) is None else inner(part)
