"""Every number that a user can set has bounds that pages, databases and dates can hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.cost import Price
from lab.study import Study

#: What a browser's number field, and a BIGINT, can hold.
_LARGEST = 2**53 - 1


def numbers(schema: dict[str, Any], where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each number of a JSON schema, by where it is; an option or flag, whose value may be of any kind, is none."""
    for name, part in (*schema.get("$defs", {}).items(), *schema.get("properties", {}).items()):
        yield from numbers(part, f"{where}.{name}".strip("."))
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    if len(kinds) == 1 and kinds[0].get("type") in ("integer", "number"):
        yield where, kinds[0]


@pytest.mark.parametrize(
    ("where", "schema"),
    [
        pytest.param(where, schema, id=where)
        for model in (Study, Price)
        for where, schema in numbers(model.model_json_schema())
    ],
)
def test_a_number_has_a_least_and_a_greatest_value(where: str, schema: dict[str, Any]) -> None:
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    greatest = schema.get("maximum", schema.get("exclusiveMaximum"))
    assert least is not None, where
    assert greatest is not None, where
    assert -_LARGEST <= least <= greatest <= _LARGEST
