"""A run's id is the digest of one text, which is that of `json.dumps`."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from warehouse.bundles.imported_run import canonical_json

_PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8"))
_VALUES = st.recursive(
    _PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@given(_VALUES | st.lists(st.floats(0, 1), min_size=95, max_size=205))
def test_the_pieces_are_the_text_of_json(value: Any) -> None:
    assert "".join(canonical_json(value)) == json.dumps(value, sort_keys=True, separators=(",", ":"))
