"""Records of one dataclass as an Arrow table: the type of each column, and the table built from buffers.

pyarrow's own conversion of Python values cuts 1.5 to 1 for a column of whole numbers. This one refuses it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa

_TYPES: dict[Any, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int32(),
    float: pa.float64(),
    Sequence[float]: pa.list_(pa.float64()),
    tuple[int, ...]: pa.list_(pa.int32()),
    tuple[float, ...]: pa.list_(pa.float64()),
}
#: The code of an `array.array`, which takes values of its own kind alone and refuses those out of range.
_CODES: dict[pa.DataType, str] = {pa.int32(): "i", pa.int64(): "q", pa.float64(): "d"}
#: Records converted at once: their texts must stay below the 2 GiB that an Arrow array can hold.
_BLOCK = 16_384


def record_schema(record: type[Any]) -> pa.Schema:
    """Return the columns of a dataclass: its fields in order, each with the type and nullability of its type hint."""
    return pa.schema([column_field(name, hint) for name, hint in get_type_hints(record).items()])


def column_field(name: str, hint: Any) -> pa.Field[Any]:
    """Return the column of a field. Amounts of bytes and seeds are 64 bits wide, other whole numbers 32."""
    members = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    [type_] = [member for member in members if member is not NoneType]
    if get_origin(type_) is Literal:
        type_ = type(get_args(type_)[0])
    wide = type_ is int and name.endswith(("_bytes", "seed"))
    return pa.field(name, pa.int64() if wide else _TYPES[type_], nullable=NoneType in members)


def records_table(records: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Return one row for each record, each column from the attribute of its name.

    Raises TypeError, OverflowError or UnicodeEncodeError for a value that its column cannot hold.
    """
    starts = range(0, max(len(records), 1), _BLOCK)
    return pa.concat_tables([_table(records[start : start + _BLOCK], schema) for start in starts])


def _table(records: Sequence[Any], schema: pa.Schema) -> pa.Table:
    columns = [_column(list(map(attrgetter(field.name), records)), field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _column(values: list[Any], type_: Any) -> pa.Array[Any]:
    if type_ in _CODES:
        return _numbers(values, type_)
    if pa.types.is_string(type_):
        texts = [b"" if value is None else value.encode() for value in values]
        buffers = [_validity(values), _offsets(texts), pa.py_buffer(b"".join(texts))]
        return pa.Array.from_buffers(type_, len(values), buffers)
    lists = [() if value is None else value for value in values]
    code = _CODES[type_.value_type]
    parts = [
        row_values if isinstance(row_values, array) and row_values.typecode == code else array(code, row_values)
        for row_values in lists
    ]
    inner = pa.py_buffer(b"".join(parts))
    child = pa.Array.from_buffers(type_.value_type, sum(map(len, lists)), [None, inner])
    return pa.Array.from_buffers(type_, len(values), [_validity(values), _offsets(lists)], children=[child])


def _numbers(values: list[Any], type_: Any) -> pa.Array[Any]:
    validity = _validity(values)
    filled = values if validity is None else [0 if value is None else value for value in values]
    return pa.Array.from_buffers(type_, len(values), [validity, pa.py_buffer(array(_CODES[type_], filled))])


def _offsets(parts: Sequence[Sequence[Any]]) -> pa.Buffer:
    return pa.py_buffer(array("i", accumulate(map(len, parts), initial=0)))


def _validity(values: list[Any]) -> pa.Buffer | None:
    """Return a bit for each value, or None if none of them is None."""
    if None not in values:
        return None
    return pa.py_buffer(np.packbits([value is not None for value in values], bitorder="little").tobytes())
