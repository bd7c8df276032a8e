"""Records as columns: an Arrow table of a dataclass, its numbers as arrays, its lists of numbers end to end.

A run may have a hundred thousand requests with hundreds of chunks each, so nothing here makes a Python object of a
request or of a chunk.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lab.metrics.record_columns import records_table

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Ragged:
    """Lists of different lengths, end to end: list i is `values[bounds[i] : bounds[i + 1]]`.

    A list that is null has no values and is not `known`.
    """

    values: NDArray[Any]
    bounds: NDArray[np.int64]
    known: Mask

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.bounds)

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """Return, for each value, the number of its list."""
        return np.repeat(np.arange(self.lengths.size), self.lengths)

    def owners_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of the lists that hold the values at these positions."""
        owners: NDArray[np.int64] = np.searchsorted(self.bounds, positions, side="right") - 1
        return owners

    @cached_property
    def firsts(self) -> Floats:
        """Return the first value of each list; NaN for an empty one."""
        return self._at(self.bounds[:-1])

    @cached_property
    def lasts(self) -> Floats:
        """Return the last value of each list; NaN for an empty one."""
        return self._at(self.bounds[1:] - 1)

    def _at(self, positions: NDArray[np.int64]) -> Floats:
        chosen = np.full(self.lengths.size, np.nan)
        chosen[self.lengths > 0] = self.values[positions[self.lengths > 0]]
        return chosen

    @cached_property
    def follows(self) -> Mask:
        """Return, for each value from the second on, whether the previous value is in the same list."""
        follows = np.ones(max(self.values.size - 1, 0), dtype=np.bool_)
        begins = self.bounds[1:-1]
        follows[begins[(begins > 0) & (begins < self.values.size)] - 1] = False
        return follows

    @cached_property
    def gaps(self) -> NDArray[Any]:
        """Return the differences between consecutive values of each list, end to end."""
        return np.diff(self.values)[self.follows]

    def where(self, chosen: Mask) -> Ragged:
        """Return the lists with only the chosen values."""
        counts = self.sums(chosen)
        return Ragged(self.values[chosen], np.concatenate(([0], np.cumsum(counts))).astype(np.int64), self.known)

    def sums(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Sum whole numbers or truth values, one for each value, over each list."""
        sums = np.zeros(self.lengths.size, dtype=np.int64)
        if values.size:
            filled = self.lengths > 0
            sums[filled] = np.add.reduceat(values, self.bounds[:-1][filled], dtype=np.int64)
        return sums


class RecordTable:
    """Records of one kind as an Arrow table with the columns of `schema`, in that order.

    A column that the table lacks is null: imported files do not have all columns. Columns of chosen records are copied
    when they are first read, because most callers read few columns, and texts and chunks are nearly all of the bytes.
    """

    schema: ClassVar[pa.Schema]

    def __init__(self, table: pa.Table, positions: NDArray[np.int64] | None = None) -> None:
        self._table, self._chosen = table, positions  # of the records in the table; None for all
        self._columns: dict[str, pa.ChunkedArray[Any]] = {}
        self._numbers: dict[str, Floats] = {}
        self._lists: dict[str, Ragged] = {}

    @classmethod
    def of(cls, records: Sequence[Any]) -> Self:
        return cls(records_table(records, cls.schema))

    def __len__(self) -> int:
        return self._table.num_rows if self._chosen is None else self._chosen.size

    @cached_property
    def arrow(self) -> pa.Table:
        return pa.Table.from_arrays([self._column(name) for name in self.schema.names], schema=self.schema)

    def _column(self, name: str) -> pa.ChunkedArray[Any]:
        if name not in self._columns:
            column = _whole_column(self._table, self.schema.field(name))
            self._columns[name] = column if self._chosen is None else column.take(self._chosen)
        return self._columns[name]

    def numbers(self, name: str) -> Floats:
        """Return a column of numbers; NaN where it is null."""
        if name not in self._numbers:
            self._numbers[name] = self._column(name).to_numpy().astype(np.float64, copy=False)
        return self._numbers[name]

    def lists(self, name: str) -> Ragged:
        """Return a column of lists of numbers."""
        if name not in self._lists:
            self._lists[name] = _ragged(self._column(name))
        return self._lists[name]

    def texts(self, name: str) -> Any:
        """Return a column of texts as a `pa.ChunkedArray` of one chunk."""
        return self._column(name)

    def equals(self, name: str, text: str) -> Mask:
        """Return where a column of texts equals `text`; false where it is null."""
        is_equal: Mask = pc.equal(self._column(name), pa.scalar(text)).fill_null(fill_value=False).to_numpy()
        return is_equal

    def known(self, name: str) -> Mask:
        """Return where a column is not null."""
        is_known: Mask = pc.is_valid(self._column(name)).to_numpy()
        return is_known

    def where(self, chosen: Mask) -> Self:
        """Return the chosen records, in the same order."""
        return self if chosen.all() else self.take(np.flatnonzero(chosen))

    def take(self, positions: NDArray[np.int64]) -> Self:
        return type(self)(self._table, positions if self._chosen is None else self._chosen[positions])


def _ragged(column: pa.ChunkedArray[Any]) -> Ragged:
    lists: Any = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    bounds = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    values = lists.flatten().to_numpy(zero_copy_only=False)
    return Ragged(values, bounds, lists.is_valid().to_numpy(zero_copy_only=False))


def _whole_column(table: pa.Table, field: pa.Field[Any]) -> pa.ChunkedArray[Any]:
    position = table.schema.get_field_index(field.name)  # the names of all columns take longer than one of them
    if position < 0:
        return pa.chunked_array([pa.nulls(table.num_rows, field.type)])
    column = table.column(position)
    return column if column.num_chunks == 1 else pa.chunked_array([column.combine_chunks()], type=field.type)
