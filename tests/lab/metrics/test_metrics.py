"""Each number of a run, computed by hand beside the code."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lab.metrics.catalogue import LATENCIES, METRICS
from lab.metrics.measure import Value, histograms, measure
from lab.metrics.records import RequestRecord, RunRecord, TelemetrySample
from lab.study import Slo
from tests.warehouse.runs import counters, failed_request, request, run_record


def measured(*requests: RequestRecord, **run: Any) -> dict[str, Value]:
    return measure(run_record(**run), requests)


def test_every_metric_is_declared_once_and_needs_fields_that_exist() -> None:
    names = [metric.name for metric in METRICS]
    known = {field.name for record in (RequestRecord, TelemetrySample) for field in dataclasses.fields(record)}
    known |= set(RunRecord.model_fields)
    assert len(names) == len(set(names))
    assert all(set(metric.needs) <= known for metric in METRICS)
    assert list(measured(request())) == names


def test_throughput_is_tokens_of_completed_requests_until_the_last_of_them_ended() -> None:
    values = measured(request(), request(end_s=2.0, completion_tokens=6), failed_request(end_s=9.0))
    assert values["duration_s"] == 2.0
    assert (values["requests_completed"], values["requests_failed"]) == (2, 1)
    assert (values["completion_tokens"], values["output_tok_per_s"]) == (10, 5.0)
    assert (values["prompt_tokens"], values["total_tok_per_s"]) == (20, 15.0)
    assert values["request_per_s"] == 1.0


def test_latencies_of_one_request_follow_their_formulas() -> None:
    values = measured(request())
    assert values["ttft_mean_ms"] == pytest.approx(100)
    assert values["tpot_mean_ms"] == pytest.approx(100)  # 0.3 s for 3 tokens after the first
    assert values["icl_mean_ms"] == pytest.approx(150)  # gaps of 0.2 and 0.1 s
    assert values["itl_mean_ms"] == pytest.approx(100)  # 0.1, 0.1 (one chunk of two) and 0.1 s
    assert values["e2e_mean_ms"] == pytest.approx(500)


def test_percentiles_are_linear_between_neighbours_as_numpys_are() -> None:
    values = measured(*(request(first_token_s=0.1 + ttft_s) for ttft_s in (0.1, 0.2, 0.3)))
    assert values["ttft_p50_ms"] == pytest.approx(200)
    assert values["ttft_p90_ms"] == pytest.approx(280)


def test_a_failed_request_is_in_no_percentile() -> None:
    assert measured(request(), failed_request(first_token_s=60.0))["ttft_p99_ms"] == pytest.approx(100)


def test_an_unknown_token_count_makes_throughput_unknown_instead_of_too_low() -> None:
    values = measured(request(), request(completion_tokens=None))
    unknown = ("completion_tokens", "output_tok_per_s", "total_tok_per_s", "tpot_mean_ms")
    assert [values[name] for name in unknown] == [None] * 4
    assert values["request_per_s"] is not None


def test_inter_token_latency_needs_the_tokens_of_every_chunk() -> None:
    values = measured(request(), request(chunk_tokens=None))
    assert values["itl_mean_ms"] is None
    assert values["icl_mean_ms"] == pytest.approx(150)


def test_a_chunk_without_tokens_leaves_its_gap_to_the_next_chunk() -> None:
    assert measured(request(chunk_tokens=(1, 0, 1)))["itl_mean_ms"] == pytest.approx(300)


def test_a_request_of_one_token_has_no_tpot() -> None:
    values = measured(request(completion_tokens=1, chunk_s=(0.2,), chunk_tokens=(1,)))
    assert (values["tpot_mean_ms"], values["icl_mean_ms"], values["itl_mean_ms"]) == (None, None, None)


def test_acceptance_is_the_difference_of_the_servers_counters() -> None:
    before = counters(num_drafts=10, num_draft_tokens=30, num_accepted_tokens=5)
    after = counters(
        num_drafts=20, num_draft_tokens=60, num_accepted_tokens=20, num_accepted_tokens_per_position=(9, 5, 1)
    )
    values = measured(request(), counters_before=before, counters_after=after)
    assert (values["num_drafts"], values["num_draft_tokens"], values["num_accepted_tokens"]) == (10, 30, 15)
    assert values["acceptance_rate"] == 0.5
    assert values["acceptance_length"] == 2.5
    assert values["acceptance_per_position"] == (0.9, 0.5, 0.1)


def test_a_counter_that_shrank_makes_all_counters_unknown() -> None:
    before, after = counters(generation_tokens=50, num_drafts=1), counters(generation_tokens=3, num_drafts=9)
    values = measured(request(), counters_before=before, counters_after=after)
    assert values["num_drafts"] is None
    assert values["acceptance_length"] is None
    assert values["acceptance_per_position"] is None
    assert values["server_generation_tokens"] is None


@pytest.mark.parametrize("seen", [{}, {"counters_before": counters()}, {"counters_after": counters()}])
def test_a_missing_reading_of_the_counters_leaves_acceptance_unknown(seen: dict[str, Any]) -> None:
    assert measured(request(), **seen)["acceptance_rate"] is None


def test_a_window_without_drafts_has_no_acceptance() -> None:
    values = measured(request(), counters_before=counters(), counters_after=counters())
    assert (values["num_drafts"], values["acceptance_rate"], values["acceptance_length"]) == (0, None, None)


def test_the_prefix_cache_hit_rate_is_that_of_the_window() -> None:
    before = counters(prefix_cache_queries=100, prefix_cache_hits=100)
    after = counters(prefix_cache_queries=200, prefix_cache_hits=125)
    assert measured(request(), counters_before=before, counters_after=after)["prefix_cache_hit_rate"] == 0.25


def test_goodput_counts_the_requests_that_keep_every_bound() -> None:
    requests = (request(), request(first_token_s=0.5), failed_request())
    slo = Slo(ttft_ms=150, e2e_ms=600)
    assert measured(*requests, slo=slo)["goodput_request_per_s"] == pytest.approx(1 / 0.6)
    assert measured(*requests)["goodput_request_per_s"] is None


def test_goodput_is_unknown_where_a_bound_cannot_be_checked() -> None:
    assert measured(request(completion_tokens=None), slo=Slo(tpot_ms=1000))["goodput_request_per_s"] is None


def test_a_failed_run_has_no_numbers() -> None:
    assert set(measured(status="failed", error="the engine died").values()) == {None}


def test_a_failed_run_counts_its_requests_but_measures_nothing_by_them() -> None:
    values = measured(request(), failed_request(), status="failed", error="the engine died")
    assert {name for name, value in values.items() if value is not None} == {"requests_completed", "requests_failed"}
    assert histograms(run_record(status="failed"), (request(),)) == {}


def test_a_run_whose_requests_all_failed_has_no_throughput() -> None:
    values = measured(failed_request())
    assert (values["requests_completed"], values["requests_failed"]) == (0, 1)
    assert {name for name, value in values.items() if value is not None} == {"requests_completed", "requests_failed"}


def test_each_latency_that_is_known_has_a_histogram() -> None:
    assert set(histograms(run_record(), (request(),))) == set(LATENCIES)
    assert set(histograms(run_record(), (request(chunk_tokens=None),))) == set(LATENCIES) - {"itl"}
