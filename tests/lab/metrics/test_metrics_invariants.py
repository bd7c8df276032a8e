"""What holds of every run, whatever its requests: found by hypothesis."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.metrics import histogram
from lab.metrics.catalogue import METRICS
from lab.metrics.measure import measure
from lab.metrics.records import RequestRecord
from lab.metrics.request_table import RequestTable
from tests.warehouse import runs
from tests.warehouse.generated import request_records
from tests.warehouse.runs import run_record

_SAMPLES = st.lists(st.floats(min_value=1e-3, max_value=1e7), min_size=1, max_size=200).map(np.array)


@settings(max_examples=25)
@given(st.lists(request_records(), max_size=8))
def test_every_number_is_finite_or_unknown_and_never_negative(requests: list[RequestRecord]) -> None:
    for value in measure(run_record(), RequestTable.of(requests)).values():
        assert value is None or (isinstance(value, (int, float)) and math.isfinite(value) and value >= 0)


def test_a_window_too_short_to_divide_by_has_no_throughput() -> None:
    instant = runs.request(sent_s=0.0, first_token_s=0.0, chunk_s=(0.0,), end_s=2.2e-313)
    values = measure(run_record(), RequestTable.of([instant]))
    assert values["duration_s"] == 2.2e-313
    assert values["output_tok_per_s"] is None
    assert values["request_per_s"] is None


@given(_SAMPLES, _SAMPLES)
def test_merged_histograms_are_the_histogram_of_the_pool(left: np.ndarray, right: np.ndarray) -> None:
    pooled = histogram.histogram(np.concatenate((left, right)))
    assert Counter(histogram.histogram(left)) + Counter(histogram.histogram(right)) == pooled


def test_only_counts_and_rates_have_no_better_direction_by_oversight() -> None:
    assert {metric.better for metric in METRICS if metric.unit == "ms"} == {"lower"}
    assert {metric.better for metric in METRICS if metric.unit.endswith("/s")} == {"higher"}
