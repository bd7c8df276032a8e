"""A column of the warehouse declared once: its name, type, meaning, and where in a bundle its value comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

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
}


@dataclass(frozen=True)
class Column:
    """`kind` is one of KINDS, with a question mark where null is allowed. `value` reads it from the row's record."""

    name: str
    kind: str
    comment: str
    value: Callable[[Any], Any]

    @property
    def nullable(self) -> bool:
        return self.kind.endswith("?")

    @property
    def types(self) -> tuple[Any, pa.DataType]:
        return KINDS[self.kind.removesuffix("?")]


def column(name: str, kind: str, comment: str, value: str | Callable[[Any], Any] | None = None) -> Column:
    """A column whose value is the record's attribute `value` (a dotted path; by default `name`), or a function of it.

    A path may go through a part that is None: the value is None then.
    """
    return Column(name, kind, comment, value if callable(value) else _path(value or name))


def table(metadata: sa.MetaData, name: str, comment: str, columns: Sequence[Column]) -> sa.Table:
    """The table for SQLAlchemy and Alembic."""
    made = [sa.Column(c.name, c.types[0], nullable=c.nullable, comment=c.comment) for c in columns]
    return sa.Table(name, metadata, *made, comment=comment)


def rows(columns: Sequence[Column], records: Sequence[Any]) -> pa.Table:
    """The rows for DuckDB. Raises ValueError where a column that needs a value has none."""
    arrays = [pa.array([c.value(record) for record in records], type=c.types[1]) for c in columns]
    for one, array in zip(columns, arrays, strict=True):
        if array.null_count and not one.nullable:
            raise ValueError(f"{one.name} has no value")
    return pa.table(arrays, names=[c.name for c in columns])


def keyed(columns: Sequence[Column]) -> list[Column]:
    """The same columns, read from dicts with their names."""
    return [Column(c.name, c.kind, c.comment, itemgetter(c.name)) for c in columns]


def _path(path: str) -> Callable[[Any], Any]:
    first, _, rest = path.partition(".")
    if not rest:
        return attrgetter(first)
    read, inner = attrgetter(first), _path(rest)
    return lambda record: None if (part := read(record)) is None else inner(part)
