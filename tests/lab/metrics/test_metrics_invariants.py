"""What holds of every run, whatever its requests: found by hypothesis."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics import histogram, latency
from lab.metrics.catalogue import METRICS
from lab.metrics.measure import measure, samples_ms
from lab.metrics.records import RequestRecord
from lab.metrics.request_table import RequestTable
from tests.warehouse import runs
from tests.warehouse.generated import request_records
from tests.warehouse.runs import counters, run_record

_SAMPLES = st.lists(st.floats(min_value=1e-3, max_value=1e7), min_size=1, max_size=200).map(np.array)


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


@given(st.lists(request_records(), max_size=8))
def test_completed_and_failed_requests_are_all_requests(requests: list[RequestRecord]) -> None:
    values = measure(run_record(), RequestTable.of(requests))
    assert values["requests_completed"] == sum(
        request.error is None and request.end_s is not None for request in requests
    )
    assert values["requests_completed"] + values["requests_failed"] == len(requests)  # type: ignore[operator]  # counts


@given(st.lists(request_records(), min_size=1, max_size=8))
def test_percentiles_never_fall_and_stay_between_the_extremes(requests: list[RequestRecord]) -> None:
    values = measure(run_record(), RequestTable.of(requests))
    samples = samples_ms(RequestTable.of(requests).completed)
    for name, latencies in samples.items():
        if latencies is None or not latencies.size:
            assert values[f"{name}_p50_ms"] is None
        else:
            ladder = [values[f"{name}_{step}_ms"] for step in ("p50", "p90", "p95", "p99")]
            assert ladder == sorted(ladder)  # type: ignore[type-var]  # none of them is None here
            assert latencies.min() <= ladder[0] <= ladder[-1] <= latencies.max()  # type: ignore[operator]  # likewise


@given(st.lists(request_records(), max_size=8))
def test_inter_token_latencies_add_up_to_the_inter_chunk_latencies(requests: list[RequestRecord]) -> None:
    for request in requests:
        table = RequestTable.of([request])
        per_token = latency.itl_ms(table)
        if per_token is not None and request.chunk_tokens and min(request.chunk_tokens) > 0:
            assert per_token.sum() == pytest.approx(latency.icl_ms(table).sum())


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.integers(1, 10_000))
def test_acceptance_length_is_one_and_the_sum_of_the_per_position_rates(accepted: list[int], drafts: int) -> None:
    per_position = sorted((min(count, drafts) for count in accepted), reverse=True)
    after = counters(
        num_drafts=drafts,
        num_draft_tokens=drafts * len(accepted),
        num_accepted_tokens=sum(per_position),
        num_accepted_tokens_per_position=per_position,
    )
    before = counters(num_accepted_tokens_per_position=[0.0] * len(accepted))
    values = measure(run_record(counters_before=before, counters_after=after), RequestTable.of([]))
    rates = values["acceptance_per_position"]
    assert isinstance(rates, tuple)
    assert values["acceptance_length"] == pytest.approx(1 + sum(rates))
    assert all(0 <= rate <= 1 for rate in rates)


@given(_SAMPLES, _SAMPLES)
def test_merged_histograms_are_the_histogram_of_the_pool(left: np.ndarray, right: np.ndarray) -> None:
    pooled = histogram.histogram(np.concatenate((left, right)))
    assert Counter(histogram.histogram(left)) + Counter(histogram.histogram(right)) == pooled


def test_only_counts_and_rates_have_no_better_direction_by_oversight() -> None:
    assert {metric.better for metric in METRICS if metric.unit == "ms"} == {"lower"}
    assert {metric.better for metric in METRICS if metric.unit.endswith("/s")} == {"higher"}
