"""The canonical JSON of a value, of which a run's id is the digest: keys in order, no spaces, ASCII alone.

It is what `json.dumps` gives, but in pieces, because whole it takes ten times the memory of the text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

#: Arrays of numbers are written as lists.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=list)
#: So many elements of a list are written at once.
_ELEMENTS = 100


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
            yield f"{',' if start else ''}{_ENCODER.encode(value[start : start + _ELEMENTS])[1:-1]}"
        yield "]"
    else:
        yield _ENCODER.encode(value)
