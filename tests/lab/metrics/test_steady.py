"""The steady window and its throughput, computed by hand beside the code, and what holds of every closed loop."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics.measure import measure, steady_window
from lab.metrics.records import RequestRecord
from lab.study import Load
from tests.warehouse.generated import request_records
from tests.warehouse.runs import failed_request, request, run_record

TWO = Load(max_concurrency=2, num_prompts=2)
FOUR = Load(max_concurrency=4, num_prompts=4)


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
    values = measure(run_record(load=load), requests)
    return values["steady_window_s"], values["steady_output_tok_per_s"]


def test_a_run_without_a_tail_has_the_same_throughput_twice() -> None:
    requests = (answered(0.0, 2.0), answered(0.0, 2.0))
    assert steady(*requests) == (2.0, 4.0)
    assert measure(run_record(load=TWO), requests)["output_tok_per_s"] == 4.0


def test_the_tail_is_left_out_with_the_tokens_that_came_in_it() -> None:
    """Three of four streams end after 1 s, the last one goes on to 4 s: of its 4 tokens one came until then."""
    requests = (*(answered(0.0, 1.0) for _ in range(3)), answered(0.0, 4.0))
    assert steady(*requests, load=FOUR) == (1.0, 13.0)
    assert measure(run_record(load=FOUR), requests)["output_tok_per_s"] == 4.0


def test_half_of_the_streams_are_enough() -> None:
    requests = (answered(0.0, 1.0), answered(0.0, 1.0), answered(0.0, 2.0), answered(0.0, 2.0))
    assert steady(*requests, load=FOUR) == (2.0, 8.0)


def test_the_ramp_up_is_left_out_too() -> None:
    assert steady(answered(1.0, 3.0), answered(2.0, 3.0), load=Load(max_concurrency=3, num_prompts=3)) == (1.0, 6.0)


def test_a_pause_between_two_requests_of_a_stream_is_a_part_of_the_window() -> None:
    assert steady(answered(0.0, 1.0), answered(1.5, 2.0), load=Load(max_concurrency=1, num_prompts=2)) == (2.0, 4.0)


def test_a_failed_request_keeps_its_stream_busy_but_gives_no_tokens() -> None:
    failed = failed_request(sent_s=0.0, end_s=2.0)
    never_ended = failed_request(sent_s=0.0, end_s=None)
    never_left = failed_request(sent_s=None, end_s=None)
    for other in (failed, never_ended):
        assert steady(answered(0.0, 1.0), answered(1.0, 2.0), other, never_left, load=FOUR) == (2.0, 4.0)


def test_after_the_last_answer_nothing_counts() -> None:
    assert steady(answered(0.0, 1.0), failed_request(sent_s=0.0, end_s=60.0)) == (1.0, 4.0)


def test_where_chunks_are_not_counted_a_request_inside_counts_whole_and_one_across_the_border_is_unknown() -> None:
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


def test_streams_that_were_never_half_busy_have_no_steady_window() -> None:
    assert steady(answered(0.0, 1.0), load=FOUR) == (None, None)
    assert steady(failed_request(), load=FOUR) == (None, None)
    assert steady_window((), 1) is None


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
    values = measure(run_record(load=loop[0]), loop[1])
    assert values["steady_output_tok_per_s"] == pytest.approx(values["output_tok_per_s"])


@given(closed_loops(tail=True))
def test_the_steady_window_lies_within_the_run_and_has_no_more_tokens(loop: tuple[Load, list[RequestRecord]]) -> None:
    values = measure(run_record(load=loop[0]), loop[1])
    whole_s, tokens = values["duration_s"], values["completion_tokens"]
    length_s, speed = values["steady_window_s"], values["steady_output_tok_per_s"]
    assert isinstance(length_s, float)
    assert isinstance(speed, float)
    assert 0 < length_s <= whole_s  # type: ignore[operator]  # known of requests that all were answered
    assert 0 <= speed * length_s <= tokens + 1e-6  # type: ignore[operator]  # likewise


@given(st.lists(request_records(), max_size=8), st.integers(1, 4))
def test_a_window_of_any_requests_is_longer_than_nothing(requests: list[RequestRecord], streams: int) -> None:
    found = steady_window(requests, streams)
    assert found is None or 0 <= found[0] < found[1]
