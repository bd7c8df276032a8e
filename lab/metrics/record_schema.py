"""The Arrow columns of a record: its fields in order, each with the type and nullability of its type hint."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

import pyarrow as pa

_TYPES: dict[Any, pa.DataType] = {
    str: pa.string(),
    int: pa.int32(),
    float: pa.float64(),
    Sequence[float]: pa.list_(pa.float64()),
    tuple[int, ...]: pa.list_(pa.int32()),
    tuple[float, ...]: pa.list_(pa.float64()),
}


def record_schema(record: type[Any]) -> pa.Schema:
    """Return the columns of a dataclass; amounts of bytes are 64 bits wide, other whole numbers 32."""
    return pa.schema([_field(name, hint) for name, hint in get_type_hints(record).items()])


def _field(name: str, hint: Any) -> pa.Field[Any]:
    members = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    [type_] = [member for member in members if member is not NoneType]
    wide = type_ is int and name.endswith("_bytes")
    return pa.field(name, pa.int64() if wide else _TYPES[type_], nullable=NoneType in members)
