"""The canonical JSON of a value, of which a run's id is the digest: keys in order, no spaces, ASCII alone.

It is what `json.dumps` gives, but in pieces, because whole it takes ten times the memory of the text. Gaps between
chunks are most of a file, and Arrow writes fractions in half of the time that Python takes.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
#: So many elements of a list are written at once.
_ELEMENTS = 100
#: Fractions between these have the same digits in Arrow as in Python, and no exponent.
_FROM, _BELOW = 1e-4, 1e9


def canonical_json(value: object) -> Iterator[str]:
    """Yield the text in pieces."""
    if isinstance(value, dict):
        yield "{"
        for number, key in enumerate(sorted(value)):
            yield f"{',' if number else ''}{_ENCODER.encode(key)}:"
            yield from canonical_json(value[key])
        yield "}"
    elif isinstance(value, list):
        yield "["
        for start in range(0, len(value), _ELEMENTS):
            yield f"{',' if start else ''}{_elements(value[start : start + _ELEMENTS])}"
        yield "]"
    else:
        yield _ENCODER.encode(value)


def _elements(values: list[Any]) -> str:
    """Return the text of the elements of a list, without its brackets."""
    kinds = set(map(type, values))
    if kinds <= {list, array} and (texts := _fractions(values)) is not None:
        return f"[{'],['.join(texts)}]"
    if array in kinds:
        values = [list(value) if isinstance(value, array) else value for value in values]
    return _ENCODER.encode(values)[1:-1]


def _kinds(numbers: list[Any] | array[float]) -> set[type]:
    return {float} if isinstance(numbers, array) else set(map(type, numbers))


def _fractions(lists: list[list[Any] | array[float]]) -> list[str] | None:
    """Return the text of each list, without its brackets; None if Arrow might write one of the values otherwise."""
    if {kind for numbers in lists for kind in _kinds(numbers)} != {float}:
        return None
    numbers = np.concatenate([np.asarray(numbers, dtype=np.float64) for numbers in lists])
    if not ((numbers >= _FROM) & (numbers < _BELOW) & (numbers != np.floor(numbers))).all():
        return None
    bounds = pa.array(np.cumsum([0, *map(len, lists)]), type=pa.int32())
    digits: Any = pc.cast(pa.array(numbers), pa.string())
    joined: Any = pc.binary_join(pa.ListArray.from_arrays(bounds, digits), ",")
    texts: list[str] = joined.to_pylist()
    return texts
