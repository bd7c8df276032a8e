"""The measured window: send times, telemetry, and early ends."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import numpy as np
import pytest

from lab.errors import UserError
from lab.study import Load
from tests.workers.load.builders import params, prompts
from tests.workers.load.openai_server import Server
from workers.load.answer import Answer
from workers.load.client import Endpoint
from workers.load.connections import Connections
from workers.load.driver import LoadResult, drive, drive_on, intended_send_s, result_of, warm_up
from workers.load.window import LoadProgress, Window

#: Between windows: longer than a busy machine takes to send.
PAUSE_S = 4.0


async def driven(connections: Connections, server: Server, load: Load, behaviour: str = "normal") -> LoadResult:
    target = Endpoint(server.base_url, behaviour)
    return await drive(connections, target, prompts(load.num_prompts), load=load, params=params(), seed=0)


async def test_every_prompt_is_sent_once_and_in_order(connections: Connections, server: Server) -> None:
    result = await driven(connections, server, Load(max_concurrency=3, num_prompts=10))
    assert [record.index for record in result.requests] == list(range(10))
    assert [record.prompt_id for record in result.requests] == [f"p{place}" for place in range(10)]
    assert [body["prompt"] for body in server.bodies] == [prompt.text for prompt in prompts(10)]
    assert all(record.error is None for record in result.requests)


async def test_a_closed_loop_keeps_exactly_its_concurrency(connections: Connections, server: Server) -> None:
    load = Load(max_concurrency=4, num_prompts=9)
    running = asyncio.create_task(driven(connections, server, load, "gated"))
    await server.requests_arrived(4)
    server.gate.set()
    result = await running
    assert server.most_in_flight == 4
    assert len(result.requests) == 9


async def test_in_a_closed_loop_a_request_is_due_with_a_free_stream(connections: Connections, server: Server) -> None:
    result = await driven(connections, server, Load(max_concurrency=1, num_prompts=5))
    ends = [0.0, *(record.end_s or 0.0 for record in result.requests)]
    for record, end_before_s in zip(result.requests, ends, strict=False):
        assert record.sent_s is not None
        assert end_before_s <= record.intended_send_s <= record.sent_s


async def test_arrivals_leave_when_they_were_meant_to(connections: Connections, server: Server) -> None:
    load = Load(max_concurrency=50, num_prompts=50, request_rate_rps=100)
    result = await driven(connections, server, load)
    assert [record.intended_send_s for record in result.requests] == intended_send_s(load, 0).tolist()
    late_s = [(record.sent_s or 0.0) - record.intended_send_s for record in result.requests]
    assert min(late_s) >= 0
    assert result.client.late_send_max_ms == pytest.approx(max(late_s) * 1000)


async def test_waiting_for_a_stream_shows_but_is_not_the_clients_lateness(
    connections: Connections, server: Server
) -> None:
    load = Load(max_concurrency=1, num_prompts=3, request_rate_rps=1000)
    running = asyncio.create_task(driven(connections, server, load, "gated"))
    await server.requests_arrived(1)
    await asyncio.sleep(0.3)
    server.gate.set()
    result = await running
    waited_ms = [((record.sent_s or 0.0) - record.intended_send_s) * 1000 for record in result.requests]
    assert waited_ms[1] > 250
    assert result.client.late_send_max_ms is not None
    assert result.client.late_send_max_ms < waited_ms[1]


async def test_each_second_is_sampled_and_nothing_is_counted_twice(connections: Connections, server: Server) -> None:
    load = Load(max_concurrency=8, num_prompts=26, request_rate_rps=10)
    result = await driven(connections, server, load)
    times = [sample.t_s for sample in result.telemetry]
    assert len(times) >= 3
    assert np.diff(times).max() < 2 + result.client.loop_lag_max_ms / 1000  # the machine may stand still
    assert sum(sample.requests_done for sample in result.telemetry) == 26
    assert sum(sample.chunks_received for sample in result.telemetry) == sum(len(r.chunk_s) for r in result.requests)
    assert result.telemetry[-1].requests_in_flight == 0
    assert result.duration_s == max(record.end_s or 0.0 for record in result.requests)
    assert result.client.cpu_s > 0


async def test_progress_is_told_twice_a_second_and_at_the_end(connections: Connections, server: Server) -> None:
    """The answers come after the third report."""
    reports, loop = list[LoadProgress](), asyncio.get_running_loop()

    def note(progress: LoadProgress) -> None:
        reports.append(progress)
        if len(reports) == 3:
            loop.call_soon_threadsafe(server.gate.set)

    load = Load(max_concurrency=8, num_prompts=22)
    target = Endpoint(server.base_url, "gated")
    await drive(connections, target, prompts(22), load=load, params=params(), seed=0, on_progress=note)
    assert np.diff([progress.elapsed_s for progress in reports[:3]]).min() > 0.4
    done = [progress.requests_done for progress in reports]
    assert done == sorted(done)
    assert (done[0] < 22, done[-1]) == (True, 22)
    assert {progress.requests_total for progress in reports} == {22}
    assert reports[-1].output_tok_per_s == pytest.approx(22 * 9 / reports[-1].elapsed_s)
    assert reports[-1].ttft_ms is not None


async def test_progress_counts_what_has_arrived_of_requests_in_flight() -> None:
    window = Window(Load(max_concurrency=2, num_prompts=2), 2)
    window.begin()
    waiting, answering = Answer(), Answer()
    window.answering = {waiting: 0.0, answering: 0.1}
    before = window.progress()
    assert (before.output_tok_per_s, before.ttft_ms, before.requests_in_flight) == (None, None, 2)
    answering.take(0.3, b'{"choices": [{"text": "Once"}], "usage": {"prompt_tokens": 2, "completion_tokens": 4}}')
    during = window.progress()
    assert during.output_tok_per_s == pytest.approx(4 / during.elapsed_s)
    assert during.ttft_ms == pytest.approx(200)
    assert during.requests_done == 0


async def test_a_run_of_several_windows_has_only_their_time(connections: Connections, server: Server) -> None:
    load, target, every = Load(max_concurrency=2, num_prompts=12), Endpoint(server.base_url, "normal"), prompts(12)
    window, reports = Window(load, 12), list[LoadProgress]()
    began_s = time.perf_counter()
    for first in (0, 4, 8):
        part = every[first : first + 4]
        await drive_on(window, connections, target, part, params=params(), on_progress=reports.append)
        await asyncio.sleep(PAUSE_S)
    passed_s = time.perf_counter() - began_s
    result = result_of(window)
    assert [(record.index, record.round, record.prompt_id) for record in result.requests] == [
        (index, index // 4, f"p{index}") for index in range(12)
    ]
    ends_s = [max(record.end_s or 0.0 for record in result.requests[first : first + 4]) for first in (0, 4, 8)]
    assert window.ends_s == pytest.approx(ends_s)
    assert result.duration_s == ends_s[-1] < passed_s - 2.9 * PAUSE_S
    for begin_s, record in zip([0.0, *ends_s], result.requests[::4], strict=False):
        assert begin_s <= record.intended_send_s <= (record.sent_s or 0.0) < begin_s + PAUSE_S
    assert set(window.ends_s) <= {sample.t_s for sample in result.telemetry}
    times_s = [sample.t_s for sample in result.telemetry]
    assert times_s == sorted(times_s)
    assert sum(sample.requests_done for sample in result.telemetry) == 12
    assert sum(sample.chunks_received for sample in result.telemetry) == sum(
        len(record.chunk_s) for record in result.requests
    )
    assert [reports[-1].requests_done, reports[-1].requests_total] == [12, 12]
    assert reports[-1].elapsed_s == pytest.approx(result.duration_s)
    assert result.client.loop_lag_max_ms < 1000 * PAUSE_S


async def test_failures_of_earlier_windows_count_too(connections: Connections, server: Server) -> None:
    load = Load(max_concurrency=1, num_prompts=12, stop_on_error_share=0.5)
    target, window = Endpoint(server.base_url, "http_error"), Window(load, 12)
    for first in range(0, 10, 2):
        assert window.problem is None
        await drive_on(window, connections, target, prompts(12)[first : first + 2], params=params())
    assert "10 of 10 requests had failed" in (window.problem or "")


async def test_what_the_progress_callback_raises_ends_the_window(connections: Connections, server: Server) -> None:
    class LeaseLostError(Exception):
        pass

    def report(progress: LoadProgress) -> None:
        raise LeaseLostError

    load, target = Load(max_concurrency=1, num_prompts=2), Endpoint(server.base_url, "gated")
    with pytest.raises(LeaseLostError):
        await drive(connections, target, prompts(2), load=load, params=params(), seed=0, on_progress=report)


async def test_cancelling_stops_at_once(connections: Connections, server: Server) -> None:
    load, target = Load(max_concurrency=4, num_prompts=100), Endpoint(server.base_url, "half")
    running = asyncio.create_task(drive(connections, target, prompts(100), load=load, params=params(), seed=0))
    await server.requests_arrived(4)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running  # the answers would never end
    assert len(server.bodies) == 4


async def test_after_the_servers_end_every_request_is_accounted_for_unsent(
    connections: Connections, server: Server
) -> None:
    end = asyncio.Event()
    load, target = Load(max_concurrency=4, num_prompts=8, request_rate_rps=0.01), Endpoint(server.base_url, "normal")
    running = asyncio.create_task(drive(connections, target, prompts(8), load=load, params=params(), seed=0, end=end))
    await asyncio.sleep(0)
    end.set()
    result = await running
    assert server.bodies == []
    assert [record.index for record in result.requests] == list(range(8))
    assert {(record.sent_s, record.error) for record in result.requests} == {
        (None, "not sent: the server had ended before its turn came")
    }
    assert result.client.late_send_max_ms is None


async def test_a_loop_that_stood_still_is_seen(connections: Connections, server: Server) -> None:
    running = asyncio.create_task(driven(connections, server, Load(max_concurrency=1, num_prompts=1), "gated"))
    await server.requests_arrived(1)
    await asyncio.sleep(0.05)
    time.sleep(0.2)  # noqa: ASYNC251 -- standing still is what this test is about
    server.gate.set()
    result = await running
    assert result.client.loop_lag_max_ms > 150
    assert max(sample.loop_lag_ms for sample in result.telemetry) == result.client.loop_lag_max_ms


async def test_the_warm_up_runs_at_the_same_concurrency_and_keeps_its_errors(
    connections: Connections, server: Server
) -> None:
    load = Load(max_concurrency=3, num_prompts=50, request_rate_rps=0.01)
    running = asyncio.create_task(
        warm_up(connections, Endpoint(server.base_url, "gated"), prompts(6), load=load, params=params())
    )
    await server.requests_arrived(3)
    server.gate.set()
    warm = await running
    assert (warm.requests, warm.errors) == (6, ())
    assert server.most_in_flight == 3
    failed = await warm_up(connections, Endpoint(server.base_url, "no_done"), prompts(2), load=load, params=params())
    assert failed.errors == ("the stream ended without [DONE]",) * 2
    assert (warm.answered, failed.answered) == (6, 0)


async def test_a_duration_ends_the_sending_and_what_is_in_flight_is_read(
    connections: Connections, server: Server
) -> None:
    load = Load(max_concurrency=2, num_prompts=100_000, duration_s=0.5)
    result = await driven(connections, server, load)
    assert 0 < len(result.requests) < 100_000
    assert len(server.bodies) == len(result.requests)
    assert all(record.error is None for record in result.requests)
    assert max(record.intended_send_s for record in result.requests) <= 0.5
    assert result.problem is None


async def test_requests_due_after_the_duration_are_no_part_of_the_run(connections: Connections, server: Server) -> None:
    load = Load(max_concurrency=10, num_prompts=100, request_rate_rps=20, arrivals="constant", duration_s=0.51)
    result = await driven(connections, server, load)
    assert [record.intended_send_s for record in result.requests] == pytest.approx(np.arange(1, 11) / 20)
    assert all(record.error is None for record in result.requests)


async def test_a_due_request_without_a_free_stream_in_time_has_failed(connections: Connections, server: Server) -> None:
    load = Load(max_concurrency=1, num_prompts=9, request_rate_rps=100, duration_s=0.2, stop_on_error_share=0.5)
    running = asyncio.create_task(driven(connections, server, load, "gated"))
    await server.requests_arrived(1)
    await asyncio.sleep(0.4)
    server.gate.set()
    result = await running
    assert len(server.bodies) == 1
    assert [record.error for record in result.requests] == [
        None,
        *["not sent: no stream was free before the 0.2 s of the load were over"] * 8,
    ]
    assert result.problem is None  # it was not the server that failed them


async def test_a_duration_in_which_nothing_is_due_is_said_to_be_so(connections: Connections, server: Server) -> None:
    load = Load(max_concurrency=1, num_prompts=3, request_rate_rps=0.1, arrivals="constant", duration_s=1.5)
    result = await driven(connections, server, load)
    assert (result.requests, result.duration_s) == ((), 0.0)
    assert result.problem == "no request was due within duration_s 1.5: let it last longer, or raise the rate"


async def test_a_trace_is_sent_at_its_own_times_prompt_by_prompt(connections: Connections, server: Server) -> None:
    at_s = [0.3, 0.0, 0.1]
    traced = [replace(prompt, arrival_s=at) for prompt, at in zip(prompts(3), at_s, strict=True)]
    load, target = Load(max_concurrency=3, num_prompts=3, arrivals="trace"), Endpoint(server.base_url, "normal")
    result = await drive(connections, target, traced, load=load, params=params(), seed=0)
    due = [(record.prompt_id, record.intended_send_s) for record in result.requests]
    assert due == [("p1", 0.0), ("p2", 0.1), ("p0", 0.3)]
    assert all((record.sent_s or 0.0) >= record.intended_send_s for record in result.requests)


async def test_a_trace_needs_prompts_with_arrival_times(connections: Connections, server: Server) -> None:
    with pytest.raises(UserError, match="records no arrival times"):
        await driven(connections, server, Load(max_concurrency=1, num_prompts=2, arrivals="trace"))


async def test_too_many_failed_requests_stop_the_load(connections: Connections, server: Server) -> None:
    load = Load(max_concurrency=2, num_prompts=1000, stop_on_error_share=0.3)
    result = await driven(connections, server, load, "dies")
    assert 10 <= len(result.requests) <= 12
    assert result.problem is not None
    assert result.problem.startswith("stopped early: 10 of 10 requests had failed, and stop_on_error_share allows 0.3")


async def test_too_many_failed_requests_stop_a_load_between_two_arrivals(
    connections: Connections, server: Server
) -> None:
    at_s = 10 * [0.0] + [3600.0]
    load = Load(max_concurrency=2, num_prompts=11, arrivals="trace", stop_on_error_share=0.5)
    target = Endpoint(server.base_url, "dies")
    traced = [replace(prompt, arrival_s=at) for prompt, at in zip(prompts(11), at_s, strict=True)]
    result = await drive(connections, target, traced, load=load, params=params(), seed=0)
    assert len(result.requests) == 10
    assert result.problem is not None


async def test_a_load_of_some_seconds_tells_its_progress_by_the_clock(connections: Connections, server: Server) -> None:
    reports: list[LoadProgress] = []
    load = Load(max_concurrency=1, num_prompts=100_000, duration_s=2.2)
    target = Endpoint(server.base_url, "normal")
    await drive(connections, target, prompts(100_000), load=load, params=params(), seed=0, on_progress=reports.append)
    assert reports[0].share_done == pytest.approx(min(1.0, reports[0].elapsed_s / 2.2))
    assert reports[-1].share_done == 1.0
