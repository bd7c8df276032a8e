"""Each number of a run, computed by hand beside the code; unknown stays unknown."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics.catalogue import LATENCIES, METRICS
from lab.metrics.measure import Value, histograms, measure, samples_ms
from lab.metrics.records import RequestRecord, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.metrics.run_data import steady_window
from lab.metrics.telemetry import energy_j, integral, throttled_share, time_mean
from lab.study import Load, Slo
from lab.study.workload import NO_TEXT
from tests.warehouse.runs import counters, failed_request, request, run_record

TWO = Load(max_concurrency=2, num_prompts=2)
FOUR = Load(max_concurrency=4, num_prompts=4)


def measured(*requests: RequestRecord, **run: Any) -> dict[str, Value]:
    return measure(run_record(**run), RequestTable.of(requests))


def test_every_metric_is_measured_in_the_order_of_its_declaration() -> None:
    assert list(measured(request())) == [metric.name for metric in METRICS]


@pytest.mark.parametrize(("cached", "rate"), [((5, 10), 0.75), ((5, None), None), ((None, None), None)])
def test_hits_of_the_prefix_cache_are_those_of_usage_without_counters(
    cached: tuple[int | None, ...], rate: float | None
) -> None:
    answers = [request(prompt_tokens=10, cached_prompt_tokens=tokens) for tokens in cached]
    values = measured(*answers, counters_before=None, counters_after=None)
    assert values["prefix_cache_hit_rate"] == rate


def test_an_unknown_token_count_makes_throughput_unknown_instead_of_too_low() -> None:
    values = measured(request(), request(completion_tokens=None))
    unknown = ("completion_tokens", "output_tok_per_s", "total_tok_per_s", "tpot_mean_ms")
    assert [values[name] for name in unknown] == [None] * 4
    assert values["request_per_s"] is not None


def test_a_request_of_one_token_has_no_tpot() -> None:
    values = measured(request(completion_tokens=1, chunk_s=(0.2,), chunk_tokens=(1,)))
    assert (values["tpot_mean_ms"], values["icl_mean_ms"], values["itl_mean_ms"]) == (None, None, None)


def test_a_counter_that_shrank_makes_all_counters_unknown() -> None:
    before, after = counters(generation_tokens=50, num_drafts=1), counters(generation_tokens=3, num_drafts=9)
    values = measured(request(), counters_before=before, counters_after=after)
    assert values["num_drafts"] is None
    assert values["acceptance_length"] is None
    assert values["acceptance_per_position"] is None
    assert values["server_generation_tokens"] is None


@pytest.mark.parametrize("readings", [{}, {"counters_before": counters()}, {"counters_after": counters()}])
def test_a_missing_reading_of_the_counters_leaves_acceptance_unknown(readings: dict[str, Any]) -> None:
    assert measured(request(), **readings)["acceptance_rate"] is None


def test_a_trace_without_texts_has_rounds_but_no_acceptance() -> None:
    after = counters(num_drafts=10.0, num_draft_tokens=30.0, num_accepted_tokens=9.0, generation_tokens=8.0)
    run = run_record(counters_before=counters(), counters_after=after)
    metrics = measure(run, RequestTable.of([request(category=NO_TEXT)]))
    assert (metrics["num_drafts"], metrics["completion_tokens"]) == (10, 4)
    unknown = ("num_accepted_tokens", "acceptance_rate", "acceptance_length", "acceptance_per_position")
    assert [metrics[name] for name in unknown] == [None] * 4


def test_a_window_without_drafts_has_no_acceptance() -> None:
    values = measured(request(), counters_before=counters(), counters_after=counters())
    assert (values["num_drafts"], values["acceptance_rate"], values["acceptance_length"]) == (0, None, None)


def test_goodput_counts_the_requests_that_keep_every_bound() -> None:
    requests = (request(), request(first_token_s=0.5), failed_request())
    slo = Slo(ttft_ms=150, e2e_ms=600)
    assert measured(*requests, slo=slo)["goodput_request_per_s"] == pytest.approx(1 / 0.6)
    assert measured(*requests)["goodput_request_per_s"] is None


def test_a_failed_run_counts_its_requests_but_measures_nothing_by_them() -> None:
    run, power = run_record(status="failed", error="the engine died"), [sample(1.0, gpu_power_w=100.0)]
    values = measure(run, RequestTable.of([request(), failed_request()]), power)
    assert {name for name, value in values.items() if value is not None} == {"requests_completed", "requests_failed"}
    assert histograms(run_record(status="failed"), samples_ms(RequestTable.of([request()]))) == {}


def test_a_run_whose_requests_all_failed_has_no_throughput() -> None:
    values = measured(failed_request())
    assert (values["requests_completed"], values["requests_failed"]) == (0, 1)
    assert {name for name, value in values.items() if value is not None} == {"requests_completed", "requests_failed"}


def test_each_latency_that_is_known_has_a_histogram() -> None:
    assert set(histograms(run_record(), samples_ms(RequestTable.of([request()])))) == set(LATENCIES)
    assert set(histograms(run_record(), samples_ms(RequestTable.of([request(chunk_tokens=None)])))) == set(
        LATENCIES
    ) - {"itl"}


def answered(sent_s: float, end_s: float, chunks: int = 4, **changes: Any) -> RequestRecord:
    """One token a chunk, the last of them as it ends."""
    chunk_s = tuple(sent_s + (end_s - sent_s) * (place + 1) / chunks for place in range(chunks))
    return request(
        **{
            "sent_s": sent_s,
            "first_token_s": chunk_s[0],
            "chunk_s": chunk_s,
            "chunk_tokens": (1,) * chunks,
            "completion_tokens": chunks,
            "end_s": end_s,
            **changes,
        }
    )


def steady(*requests: RequestRecord, load: Load = TWO) -> tuple[object, object]:
    values = measure(run_record(load=load), RequestTable.of(requests))
    return values["steady_window_s"], values["steady_output_tok_per_s"]


def test_the_tail_is_left_out_with_the_tokens_that_came_in_it() -> None:
    """Three of four streams end after 1 s, the last one goes on to 4 s: of its 4 tokens one came until then."""
    requests = (*(answered(0.0, 1.0) for _ in range(3)), answered(0.0, 4.0))
    assert steady(*requests, load=FOUR) == (1.0, 13.0)
    assert measure(run_record(load=FOUR), RequestTable.of(requests))["output_tok_per_s"] == 4.0


def test_the_load_is_steady_until_the_first_stream_has_nothing_more_to_send() -> None:
    requests = (answered(0.0, 1.0), answered(0.0, 1.0), answered(0.0, 2.0), answered(0.0, 2.0))
    assert steady(*requests, load=FOUR) == (1.0, 12.0)


def test_the_ramp_up_is_left_out_too() -> None:
    assert steady(answered(1.0, 3.0), answered(2.0, 3.0), load=TWO) == (1.0, 6.0)


def test_a_pause_between_two_requests_belongs_to_the_steady_window() -> None:
    assert steady(answered(0.0, 1.0), answered(1.5, 2.0), load=Load(max_concurrency=1, num_prompts=2)) == (2.0, 4.0)


def test_a_failed_request_keeps_its_stream_busy_but_gives_no_tokens() -> None:
    failed = failed_request(sent_s=0.0, end_s=2.0)
    never_ended = failed_request(sent_s=0.0, end_s=None)
    never_left = failed_request(sent_s=None, end_s=None)
    for other in (failed, never_ended):
        assert steady(answered(0.0, 1.0), answered(1.0, 2.0), other, never_left, load=TWO) == (2.0, 4.0)


def test_after_the_last_answer_nothing_counts() -> None:
    assert steady(answered(0.0, 1.0), failed_request(sent_s=0.0, end_s=60.0)) == (1.0, 4.0)


def test_without_chunk_counts_only_a_request_across_the_border_is_unknown() -> None:
    inside = answered(0.0, 2.0, chunk_tokens=None, completion_tokens=40)
    assert steady(inside, inside) == (2.0, 40.0)
    assert steady(*(answered(0.0, 1.0) for _ in range(3)), answered(0.0, 4.0, chunk_tokens=None), load=FOUR) == (
        1,
        None,
    )
    late = answered(0.0, 4.0, chunk_tokens=None, chunk_s=(3.0, 4.0), first_token_s=3.0)
    assert steady(*(answered(0.0, 1.0) for _ in range(3)), late, load=FOUR) == (1.0, 12.0)


def test_counts_of_chunks_that_are_not_the_sum_tell_nothing() -> None:
    wrong = answered(0.0, 4.0, completion_tokens=9)
    assert steady(*(answered(0.0, 1.0) for _ in range(3)), wrong, load=FOUR) == (1.0, None)


def test_an_unknown_count_makes_the_throughput_unknown() -> None:
    assert steady(answered(0.0, 2.0), answered(0.0, 2.0, completion_tokens=None)) == (2.0, None)


@pytest.mark.parametrize("changes", [{"request_rate_rps": 3.0}, {"arrivals": "trace"}])
def test_only_a_closed_loop_has_a_steady_window(changes: dict[str, Any]) -> None:
    assert steady(answered(0.0, 1.0), answered(0.0, 1.0), load=Load(**(TWO.model_dump() | changes))) == (None, None)


def test_streams_that_were_never_all_busy_have_no_steady_window() -> None:
    assert steady(*(answered(0.0, 1.0) for _ in range(3)), load=FOUR) == (None, None)
    assert steady(failed_request(), load=FOUR) == (None, None)
    assert steady_window(RequestTable.of([]), 1) is None


@st.composite
def closed_loops(draw: st.DrawFn, *, tail: bool) -> tuple[Load, list[RequestRecord]]:
    """Streams that send one request after the other from 0 s on; without a tail all of them end at 100 s."""
    requests: list[RequestRecord] = []
    streams = draw(st.integers(1, 6))
    for _ in range(streams):
        inner = draw(st.lists(st.integers(1, 99), max_size=4, unique=True).map(sorted))
        moments = [0, *inner, *([] if tail and inner else [100])]
        for sent_s, end_s in pairwise(moments):
            requests.append(answered(float(sent_s), float(end_s), draw(st.integers(1, 9))))
    return Load(max_concurrency=streams, num_prompts=max(streams, len(requests))), requests


@given(closed_loops(tail=False))
def test_without_a_tail_both_throughputs_are_the_same(loop: tuple[Load, list[RequestRecord]]) -> None:
    values = measure(run_record(load=loop[0]), RequestTable.of(loop[1]))
    assert values["steady_output_tok_per_s"] == pytest.approx(values["output_tok_per_s"])


@given(closed_loops(tail=True))
def test_the_steady_window_lies_within_the_run_and_has_no_more_tokens(loop: tuple[Load, list[RequestRecord]]) -> None:
    values = measure(run_record(load=loop[0]), RequestTable.of(loop[1]))
    whole_s, tokens = values["duration_s"], values["completion_tokens"]
    length_s, speed = values["steady_window_s"], values["steady_output_tok_per_s"]
    assert isinstance(length_s, float)
    assert isinstance(speed, float)
    assert 0 < length_s <= whole_s  # type: ignore[operator]  # known of requests that all were answered
    assert 0 <= speed * length_s <= tokens + 1e-6  # type: ignore[operator]  # likewise


def sample(t_s: float, **probed: Any) -> TelemetrySample:
    return TelemetrySample(t_s, loop_lag_ms=0.1, requests_in_flight=1, requests_done=0, chunks_received=0, **probed)


def powers(*points: tuple[float, float | None]) -> list[TelemetrySample]:
    return [sample(t_s, gpu_power_w=power_w) for t_s, power_w in points]


def test_energy_is_power_integrated_by_the_trapezoidal_rule_from_the_windows_start() -> None:
    """100 W for the first second, then rising to 300 W within two, then 300 W for half a second."""
    assert energy_j(powers((1.0, 100.0), (3.0, 300.0), (3.5, 300.0))) == pytest.approx(100 + 400 + 150)


def test_a_window_shorter_than_a_second_has_its_one_samples_energy() -> None:
    assert energy_j(powers((0.5, 200.0))) == pytest.approx(100.0)


def test_energy_is_unknown_without_power_or_with_a_gap_in_it() -> None:
    assert energy_j([]) is None
    assert energy_j(powers((1.0, None))) is None
    assert energy_j(powers((1.0, 100.0), (2.0, None), (3.0, 100.0))) is None


@given(
    st.lists(st.floats(0, 100), min_size=2, max_size=30, unique=True).map(sorted), st.floats(-5, 5), st.floats(-5, 5)
)
def test_the_integral_of_a_straight_line_is_exact(times_s: list[float], slope: float, start: float) -> None:
    first, last = times_s[0], times_s[-1]
    exact = slope * (last**2 - first**2) / 2 + start * (last - first)
    assert integral((t, slope * t + start) for t in times_s) == pytest.approx(exact, abs=1e-6)


def test_a_mean_weighs_each_sample_by_its_time() -> None:
    assert time_mean([(1.0, 10.0), (2.0, 10.0), (2.5, 60.0)]) == pytest.approx(20.0)
    assert time_mean([]) is None


def test_only_what_holds_clocks_back_counts_as_throttling() -> None:
    reasons = ("", "gpu_idle", "applications_clocks_setting,gpu_idle", "gpu_idle,sw_power_cap", "hw_thermal_slowdown")
    assert throttled_share([sample(t, gpu_throttle_reasons=text) for t, text in enumerate(reasons, 1)]) == 2 / 5
    assert throttled_share([sample(1.0)]) is None


def test_a_host_without_a_gpu_has_only_figures_of_its_own() -> None:
    samples = [sample(1.0, host_cpu_percent=50.0, other_cpu_percent=5.0, host_memory_used_bytes=2**30)]
    metrics, without = (measure(run_record(), RequestTable.of([request()]), found) for found in (samples, ()))
    known = {name for name, value in metrics.items() if value is not None and without[name] is None}
    assert known == {"host_cpu_mean_percent", "other_cpu_percent", "host_memory_used_max_bytes"}


def test_a_run_of_two_answers_and_a_failure_has_these_numbers() -> None:
    """Every number of a run that can be known, by hand."""
    requests = (
        request(),
        request(
            sent_s=0.3, first_token_s=0.5, chunk_s=(0.5, 0.9, 1.5), chunk_tokens=(1, 1, 2), end_s=1.6, prompt_tokens=20
        ),
        failed_request(sent_s=0.7, end_s=1.9),
    )
    before = counters(
        generation_tokens=100,
        num_drafts=10,
        num_draft_tokens=30,
        num_accepted_tokens=5,
        prefix_cache_queries=100,
        prefix_cache_hits=10,
    )
    after = counters(
        generation_tokens=112,
        num_drafts=20,
        num_draft_tokens=60,
        num_accepted_tokens=20,
        num_accepted_tokens_per_position=(9, 5, 1),
        prefix_cache_queries=200,
        prefix_cache_hits=60,
    )
    slo = Slo(ttft_ms=150.0, tpot_ms=200.0, e2e_ms=2000.0)
    run = run_record(load=TWO, slo=slo, counters_before=before, counters_after=after)
    seconds = tuple(
        sample(
            float(t),
            gpu_power_w=100.0 * t,
            gpu_utilisation_percent=40.0 * t,
            gpu_sm_clock_mhz=1500.0 * t,
            gpu_memory_clock_mhz=900.0 * t,
            gpu_temperature_c=30.0 * t,
            gpu_memory_used_bytes=10 * t,
            gpu_throttle_reasons="" if t == 1 else "hw_slowdown",
            kv_cache_usage=0.25 * t,
            engine_running=2 * t,
            engine_waiting=t,
            host_cpu_percent=10.0 * t,
            other_cpu_percent=4.0 * t,
            host_memory_used_bytes=t,
        )
        for t in (1, 2)
    )
    expected: dict[str, Value] = {
        "requests_completed": 2,
        "requests_failed": 1,
        "duration_s": 1.6,
        "prompt_tokens": 30,
        "completion_tokens": 8,
        "output_tok_per_s": 8 / 1.6,
        "total_tok_per_s": 38 / 1.6,
        "request_per_s": 2 / 1.6,
        "requests_within_slo": 1,
        "goodput_request_per_s": 1 / 1.6,
        "goodput_tok_per_s": 4 / 1.6,
        "num_drafts": 10,
        "num_draft_tokens": 30,
        "num_accepted_tokens": 15,
        "acceptance_rate": 0.5,
        "acceptance_length": 2.5,
        "acceptance_per_position": (0.9, 0.5, 0.1),
        "draft_length_mean": 3.0,
        "num_verified_tokens": 40,
        "num_wasted_tokens": 15,
        "wasted_share": 0.5,
        "prefix_cache_hit_rate": 0.5,
        "server_generation_tokens": 12,
        "steady_window_s": 1.6 - 0.3,
        "steady_output_tok_per_s": 7 / 1.3,
        **of("ttft", mean=150, p50=150, p90=190, p95=195, p99=199),
        **of("tpot", mean=650 / 3, p50=650 / 3, p90=310, p95=965 / 3, p99=331),
        **of("itl", mean=650 / 3, p50=200, p90=350, p95=375, p99=395),
        **of("icl", mean=325, p50=300, p90=540, p95=570, p99=594),
        **of("e2e", mean=900, p50=900, p90=1220, p95=1260, p99=1292),
        "energy_j": 100 + 150,
        "energy_j_per_output_token": 250 / 8,
        "gpu_power_mean_w": 150,
        "gpu_utilisation_mean_percent": 60,
        "gpu_memory_used_max_bytes": 20,
        "gpu_sm_clock_mean_mhz": 2250,
        "gpu_memory_clock_mean_mhz": 1350,
        "gpu_temperature_mean_c": 45,
        "gpu_temperature_max_c": 60,
        "gpu_throttled_share": 0.5,
        "kv_cache_usage_max": 0.5,
        "engine_running_mean": 3,
        "engine_waiting_mean": 1.5,
        "engine_waiting_max": 2,
        "host_cpu_mean_percent": 15,
        "other_cpu_percent": 6,
        "host_memory_used_max_bytes": 2,
    }
    metrics = measure(run, RequestTable.of(requests), seconds)
    assert metrics == {name: pytest.approx(expected[name]) if name in expected else None for name in metrics}
    assert set(expected) <= set(metrics)


def of(latency: str, **statistics: float) -> dict[str, Value]:
    return {f"{latency}_{name}_ms": value for name, value in statistics.items()}
