"""Latencies of one request: None where a moment is unknown, and the gaps between chunks shared by their tokens."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lab.metrics import latency
from lab.metrics.measure import measure, samples_ms
from lab.metrics.request_table import RequestTable
from lab.study import Slo
from tests.warehouse.runs import failed_request, records, request, run_record

MOMENTS: dict[str, Any] = {"intended_send_s": 1.0, "sent_s": 1.5, "first_token_s": 2.25, "end_s": 4.0}


@pytest.mark.parametrize(
    ("value", "between", "expected_ms"),
    [
        (latency.ttft_ms, ("sent_s", "first_token_s"), 750.0),
        (latency.ttft_from_intended_ms, ("intended_send_s", "first_token_s"), 1250.0),
        (latency.send_delay_ms, ("intended_send_s", "sent_s"), 500.0),
        (latency.e2e_ms, ("sent_s", "end_s"), 2500.0),
    ],
)
def test_a_latency_lies_between_two_moments_and_is_unknown_without_one(
    value: Any, between: tuple[str, str], expected_ms: float
) -> None:
    known = request(**MOMENTS)
    unknown = [request(**MOMENTS | {name: None}) for name in set(between) - {"intended_send_s"}]
    latencies = value(RequestTable.of([*unknown, known]))
    assert latencies.tolist() == pytest.approx([*([math.nan] * len(unknown)), expected_ms], nan_ok=True, rel=0)


def test_time_per_token_needs_two_tokens_a_chunk_and_the_first_moment() -> None:
    chunks: dict[str, Any] = {"first_token_s": 1.0, "chunk_s": (1.0, 1.5, 2.0)}
    known = [request(completion_tokens=tokens, **chunks) for tokens in (3, 2)]
    assert latency.tpot_ms(RequestTable.of(known)).tolist() == [500.0, 1000.0]
    lacking: list[dict[str, Any]] = [{"completion_tokens": 1}, {"completion_tokens": None}]
    lacking += [{"chunk_s": ()}, {"first_token_s": None}]
    unknown = [request(**{"completion_tokens": 3, **chunks, **missing}) for missing in lacking]
    assert np.isnan(latency.tpot_ms(RequestTable.of(unknown))).all()


def itl_ms(**changes: Any) -> latency.Samples | None:
    return latency.itl_ms(RequestTable.of([request(**changes)]))


def test_the_gap_before_a_chunk_is_shared_by_its_tokens() -> None:
    latencies = itl_ms(chunk_s=(1.0, 1.5, 2.0, 2.6), chunk_tokens=(5, 2, 0, 3))
    assert latencies is not None
    assert latencies.tolist() == pytest.approx([250.0, 250.0, 1100 / 3, 1100 / 3, 1100 / 3])
    assert itl_ms(chunk_s=(1.0, 1.5), chunk_tokens=(1, 1, 1)) is None
    assert itl_ms(chunk_s=(1.0, 1.5), chunk_tokens=None) is None
    assert latency.icl_ms(RequestTable.of([request(chunk_s=(1.0, 1.5, 2.25))])).tolist() == [500.0, 750.0]


def test_only_a_request_that_ended_without_an_error_is_completed() -> None:
    requests = RequestTable.of([request(), failed_request(), request(end_s=None)])
    assert requests.is_completed.tolist() == [True, False, False]
    assert records(requests.completed) == (request(),)


def test_a_requests_that_are_unknown_in_part_are_unknown_in_all() -> None:
    some = samples_ms(RequestTable.of([request(), request(completion_tokens=None, first_token_s=None)]))
    assert some["tpot"] is None
    assert some["ttft"] is not None
    assert (some["ttft"].dtype.name, some["ttft"].size) == ("float64", 1)
    none = samples_ms(RequestTable.of([]))
    assert {name: None if samples is None else samples.size for name, samples in none.items()} == dict.fromkeys(none, 0)
    assert list(none) == ["ttft", "tpot", "itl", "icl", "e2e"]


@pytest.mark.parametrize(
    ("slo", "changes", "good"),
    [
        (Slo(ttft_ms=100), {}, 1),  # as long as the bound is good
        (Slo(ttft_ms=99.9), {}, 0),
        (Slo(e2e_ms=500), {}, 1),
        (Slo(e2e_ms=499.9), {}, 0),
        (Slo(tpot_ms=100.001), {}, 1),
        (Slo(tpot_ms=99.9), {}, 0),
        (Slo(tpot_ms=0.001), {"completion_tokens": 1}, 1),  # one token has no time per token to exceed
        (Slo(tpot_ms=0.001), {"completion_tokens": 2}, 0),
        (Slo(tpot_ms=1e9), {"chunk_s": (), "chunk_tokens": None}, 0),  # it was not measured
        (Slo(ttft_ms=1e9), {"first_token_s": None}, 0),
        (Slo(tpot_ms=1e9), {"completion_tokens": None}, None),
        (Slo(ttft_ms=100, e2e_ms=499), {}, 0),
        (Slo(ttft_ms=1e9), {"completion_tokens": None}, 1),
    ],
)
def test_a_request_is_good_if_it_keeps_every_bound(slo: Slo, changes: dict[str, Any], good: int | None) -> None:
    goodput = measure(run_record(slo=slo), RequestTable.of([request(**changes)]))["goodput_request_per_s"]
    assert goodput == (None if good is None else pytest.approx(good / 0.6))
