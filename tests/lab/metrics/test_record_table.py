"""Records as columns, and lists of different lengths, end to end."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics.record_table import Ragged, RecordTable
from lab.metrics.request_table import RequestTable
from tests.warehouse.runs import failed_request, request
from warehouse.bundles.imported_run import ImportedRequest, ImportedRequests


@given(lengths=st.lists(st.integers(0, 3), max_size=10))
def test_each_value_belongs_to_the_list_that_it_is_in(lengths: list[int]) -> None:
    bounds = np.cumsum([0, *lengths])
    ragged = Ragged(np.zeros(bounds[-1]), bounds, np.ones(len(lengths), dtype=np.bool_))
    owners = [number for number, length in enumerate(lengths) for _ in range(length)]
    assert ragged.owners.tolist() == ragged.owners_of(np.arange(bounds[-1])).tolist() == owners


@pytest.mark.parametrize(
    "table",
    [
        RequestTable.of([request(), request(index=1)]),
        RequestTable.of([request(), failed_request(index=1)]),
        ImportedRequests.of([ImportedRequest(0)]),
        ImportedRequests.of([ImportedRequest(0), ImportedRequest(1, error="broke")]),
    ],
)
def test_a_table_is_gone_as_soon_as_nobody_has_it(table: RecordTable) -> None:
    copy = type(table)(table.arrow)
    assert copy.completed is copy.completed  # type: ignore[attr-defined]
    left = weakref.ref(copy)
    gc.disable()
    try:
        del copy
        assert left() is None
    finally:
        gc.enable()
