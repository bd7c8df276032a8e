"""Records become the same Arrow columns that pyarrow would make of them, and no value is changed on the way."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics import record_columns
from lab.metrics.record_columns import records_table
from lab.metrics.records import RequestRecord
from lab.metrics.request_table import RequestTable
from tests.warehouse.generated import request_records
from tests.warehouse.runs import request


@given(st.lists(request_records(), max_size=5))
def test_the_columns_are_those_of_pyarrow(requests: list[RequestRecord]) -> None:
    made = records_table(requests, RequestTable.schema)
    made.validate(full=True)
    assert made.equals(pa.Table.from_pylist(list(map(asdict, requests)), schema=RequestTable.schema))


def test_many_records_become_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_columns, "_BLOCK", 3)
    requests = [request(index=index, chunk_s=(0.2,) * index) for index in range(8)]
    made = records_table(requests, RequestTable.schema)
    assert made["index"].num_chunks == 3
    assert made.equals(pa.Table.from_pylist(list(map(asdict, requests)), schema=RequestTable.schema))
    assert len(RequestTable.of(requests).lists("chunk_s").values) == sum(range(8))


@pytest.mark.parametrize(
    "changes",
    [{"index": 2**31}, {"prompt_tokens": 1.5}, {"chunk_tokens": (1, 1.5)}, {"end_s": "1.0"}, {"output_text": "\ud800"}],
    ids=lambda changes: next(iter(changes)),  # no brackets, which mutmut would take for the end of the name
)
def test_a_value_that_its_column_cannot_hold_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises((TypeError, OverflowError, UnicodeEncodeError)):
        records_table([replace(request(), **changes)], RequestTable.schema)
