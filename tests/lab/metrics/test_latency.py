"""What requests lack, and which of them keep the bounds of an SLO."""

from __future__ import annotations

from typing import Any

import pytest

from lab.metrics.measure import measure, samples_ms
from lab.metrics.request_table import RequestTable
from lab.study import Slo
from tests.warehouse.runs import request, run_record


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
