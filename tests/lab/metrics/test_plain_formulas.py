"""What is computed over columns equals what plain Python computes request by request, whatever the requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.metrics import latency, slo
from lab.metrics.measure import histograms, measure, samples_ms
from lab.metrics.records import RequestRecord
from lab.metrics.request_table import RequestTable
from lab.metrics.run_data import steady_tokens, steady_window
from lab.study import Slo
from lab.validity.checks.counting import _run_backwards, came_at_once
from lab.validity.checks.steadiness import _few_in_flight_s
from lab.validity.checks.warmth import _longest_pause_s
from tests.warehouse.generated import request_records
from tests.warehouse.runs import records, request, run_record

_TIME = st.none() | st.sampled_from([0.0, 1.0, 2.0]) | st.floats(0, 100)
_COUNT = st.none() | st.integers(0, 9)


@st.composite
def anything(draw: st.DrawFn) -> RequestRecord:
    """Times in any order, lists of any and different lengths, and everything unknown that may be."""
    chunks = tuple(draw(st.lists(st.sampled_from([0.0, 1.0, 2.0]) | st.floats(0, 100), max_size=6)))
    counts = st.lists(st.integers(0, 3), min_size=len(chunks), max_size=len(chunks)).map(tuple)
    tokens = draw(st.none() | counts | st.just((1,)) | st.just(()))
    return request(
        intended_send_s=draw(st.floats(0, 100)),
        sent_s=draw(_TIME),
        first_token_s=draw(_TIME),
        end_s=draw(_TIME),
        chunk_s=chunks,
        chunk_tokens=tokens,
        completion_tokens=sum(tokens) if tokens and draw(st.booleans()) else draw(_COUNT),
        error=draw(st.none() | st.just("") | st.just("it broke")),
    )


_REQUESTS = st.lists(anything() | request_records(), max_size=8)


def known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def completed(requests: Sequence[RequestRecord]) -> list[RequestRecord]:
    return [request for request in requests if request.error is None and request.end_s is not None]


def between_ms(begin_s: float | None, end_s: float | None) -> float | None:
    return None if begin_s is None or end_s is None else (end_s - begin_s) * 1000


def tpot_ms(request: RequestRecord) -> float | None:
    if (
        request.completion_tokens is None
        or request.completion_tokens < 2
        or not request.chunk_s
        or request.first_token_s is None
    ):
        return None
    return (request.chunk_s[-1] - request.first_token_s) * 1000 / (request.completion_tokens - 1)


PLAIN: dict[Callable[[RequestTable], latency.Samples], Callable[[RequestRecord], float | None]] = {
    latency.ttft_ms: lambda request: between_ms(request.sent_s, request.first_token_s),
    latency.ttft_from_intended_ms: lambda request: between_ms(request.intended_send_s, request.first_token_s),
    latency.send_delay_ms: lambda request: between_ms(request.intended_send_s, request.sent_s),
    latency.e2e_ms: lambda request: between_ms(request.sent_s, request.end_s),
    latency.e2e_from_intended_ms: lambda request: between_ms(request.intended_send_s, request.end_s),
    latency.tpot_ms: tpot_ms,
}


def listed(values: latency.Samples) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


@settings(max_examples=40)
@given(_REQUESTS)
def test_a_table_has_the_records_that_it_was_made_of(requests: list[RequestRecord]) -> None:
    table = RequestTable.of(requests)
    assert records(table) == tuple(requests)
    assert records(table.completed) == tuple(completed(requests))
    assert records(table.take(np.arange(len(requests))[::-1])) == tuple(reversed(requests))


@settings(max_examples=40)
@given(_REQUESTS)
def test_each_latency_of_each_request(requests: list[RequestRecord]) -> None:
    table = RequestTable.of(requests)
    for of_table, of_one in PLAIN.items():
        assert listed(of_table(table)) == [of_one(request) for request in requests]


def token_gaps_ms(request: RequestRecord) -> list[float] | None:
    if request.chunk_tokens is None or len(request.chunk_tokens) != len(request.chunk_s):
        return None
    carrying = [(t_s, tokens) for t_s, tokens in zip(request.chunk_s, request.chunk_tokens, strict=True) if tokens]
    return [(late - early) * 1000 / tokens for (early, _), (late, tokens) in pairwise(carrying) for _ in range(tokens)]


@settings(max_examples=40)
@given(_REQUESTS)
def test_the_gaps_between_chunks_and_their_shares_by_token(requests: list[RequestRecord]) -> None:
    table, shares = RequestTable.of(requests), [token_gaps_ms(request) for request in requests]
    gaps_ms = [(late - early) * 1000 for request in requests for early, late in pairwise(request.chunk_s)]
    assert latency.icl_ms(table).tolist() == gaps_ms
    gaps = latency.itl_ms(table)
    if None in shares:
        assert gaps is None
    else:
        assert gaps is not None
        assert gaps.tolist() == [gap_ms for share in shares if share is not None for gap_ms in share]


@settings(max_examples=40)
@given(_REQUESTS)
def test_a_run_has_the_mean_and_percentiles_of_its_completed_requests(requests: list[RequestRecord]) -> None:
    values = measure(run_record(), RequestTable.of(requests))
    done = completed(requests)
    assert values["duration_s"] == max((request.end_s for request in done if request.end_s is not None), default=None)
    counts = [request.completion_tokens for request in done]
    assert values["completion_tokens"] == (sum(known(counts)) if counts and None not in counts else None)
    for name, of_one in (("ttft", PLAIN[latency.ttft_ms]), ("e2e", PLAIN[latency.e2e_ms])):
        taken = known([of_one(request) for request in done])
        assert values[f"{name}_p95_ms"] == (np.percentile(taken, 95) if taken else None)
        assert values[f"{name}_mean_ms"] == (np.mean(taken) if taken else None)


@settings(max_examples=20)
@given(st.lists(request_records(), max_size=8))
def test_a_histogram_has_as_many_values_as_there_are(requests: list[RequestRecord]) -> None:
    by_name = histograms(run_record(), samples_ms(RequestTable.of(requests).completed))
    sizes = {
        "icl": sum(max(0, len(request.chunk_s) - 1) for request in completed(requests)),
        "e2e": len(completed(requests)),
    }
    assert {name: sum(by_name.get(name, {}).values()) for name in sizes} == sizes


def within(request: RequestRecord, bounds: Slo, begin_s: float | None) -> bool | None:
    if bounds.tpot_ms is not None and request.completion_tokens is None:
        return None
    single = request.completion_tokens is not None and request.completion_tokens < 2
    pairs = (
        (bounds.ttft_ms, between_ms(begin_s, request.first_token_s)),
        (None if single else bounds.tpot_ms, tpot_ms(request)),
        (bounds.e2e_ms, between_ms(begin_s, request.end_s)),
    )
    return all(value is not None and value <= bound for bound, value in pairs if bound is not None)


@pytest.mark.parametrize("bounds", [Slo(ttft_ms=900), Slo(tpot_ms=300), Slo(ttft_ms=2000, tpot_ms=9e4, e2e_ms=5e4)])
@pytest.mark.parametrize("from_intended", [False, True])
@settings(max_examples=20)
@given(requests=_REQUESTS)
def test_which_requests_meet_an_slo(requests: list[RequestRecord], bounds: Slo, from_intended: bool) -> None:  # noqa: FBT001
    table = RequestTable.of(requests)
    plain = [
        within(request, bounds, request.intended_send_s if from_intended else request.sent_s) for request in requests
    ]
    unknown, met = slo.unknown(table, bounds).tolist(), slo.meets(table, bounds, from_intended=from_intended).tolist()
    assert unknown == [is_met is None for is_met in plain]
    assert [is_met for is_met, missing in zip(met, unknown, strict=True) if not missing] == [
        is_met for is_met in plain if is_met is not None
    ]
    met_by = slo.requests_within(table, bounds, from_intended=from_intended)
    assert (met_by is None) is (None in plain)


def tokens_within(request: RequestRecord, begin_s: float, end_s: float) -> int | None:
    inside = [begin_s < t_s <= end_s for t_s in request.chunk_s]
    if not inside:
        return None
    if all(inside):
        return request.completion_tokens
    if not any(inside):
        return 0
    counts = request.chunk_tokens
    if counts is None or len(counts) != len(inside) or sum(counts) != request.completion_tokens:
        return None
    return sum(count for count, counted in zip(counts, inside, strict=True) if counted)


@settings(max_examples=40)
@given(_REQUESTS, st.floats(0, 100), st.floats(0, 100))
def test_the_tokens_within_a_window(requests: list[RequestRecord], begin_s: float, end_s: float) -> None:
    counts = [tokens_within(request, begin_s, end_s) for request in completed(requests)]
    expected = None if None in counts else sum(count for count in counts if count is not None)
    assert steady_tokens(RequestTable.of(requests), (begin_s, end_s)) == expected


def busy_streams(requests: Sequence[RequestRecord], moment_s: float, until_s: float) -> int:
    """How many requests are in flight right after a moment."""
    spans = [
        (request.sent_s, until_s if request.end_s is None else min(request.end_s, until_s)) for request in requests
    ]
    return sum(sent_s is not None and sent_s <= moment_s < end_s for sent_s, end_s in spans)


@settings(max_examples=40)
@given(st.lists(request_records(), max_size=6), st.integers(1, 4))
def test_a_steady_window_begins_and_ends_where_all_streams_are_busy(
    requests: list[RequestRecord], streams: int
) -> None:
    window = steady_window(RequestTable.of(requests), streams)
    if window is not None:
        until_s = max(request.end_s for request in completed(requests) if request.end_s is not None)
        sent = [request for request in requests if request.sent_s is not None and request.sent_s < until_s]
        moments = {t_s for request in sent for t_s in known([request.sent_s, min(request.end_s or until_s, until_s)])}
        busy = {t_s: busy_streams(sent, t_s, until_s) >= streams for t_s in moments}
        assert not any(busy[t_s] for t_s in moments if t_s < window[0] or t_s >= window[1])
        assert 0 <= window[0] < window[1] <= until_s


@settings(max_examples=40)
@given(_REQUESTS)
def test_what_checks_read_from_the_times_of_requests(requests: list[RequestRecord]) -> None:
    sent = [request for request in requests if request.sent_s is not None]
    table = RequestTable.of(sent)
    moments = [known([request.sent_s, request.first_token_s, *request.chunk_s, request.end_s]) for request in sent]
    assert _run_backwards(table).tolist() == [times != sorted(times) for times in moments]
    pauses = [late - early for request in sent for early, late in pairwise((request.sent_s or 0.0, *request.chunk_s))]
    assert _longest_pause_s(table) == max([0.0, *pauses])
    at_once = [
        bool(request.chunk_s)
        and request.completion_tokens is not None
        and 20_000 * (request.chunk_s[-1] - request.chunk_s[0]) < request.completion_tokens - 1
        for request in sent
    ]
    assert came_at_once(table).tolist() == at_once


@settings(max_examples=40)
@given(st.lists(request_records(), max_size=8), st.integers(1, 5), st.floats(0, 2e6))
def test_the_time_in_which_few_requests_are_in_flight(
    requests: list[RequestRecord], fewer_than: int, window_s: float
) -> None:
    sent = [request for request in requests if request.sent_s is not None]
    steps = [(request.sent_s or 0.0, 1) for request in sent] + [
        (request.end_s, -1) for request in sent if request.end_s is not None
    ]
    in_flight, at_s, few_s = 0, 0.0, 0.0
    for moment_s, step in [*sorted(steps), (window_s, 0)]:
        few_s += max(0.0, moment_s - at_s) if in_flight < fewer_than else 0.0
        in_flight, at_s = in_flight + step, max(at_s, moment_s)
    assert _few_in_flight_s(RequestTable.of(sent), fewer_than, window_s) == pytest.approx(few_s)
