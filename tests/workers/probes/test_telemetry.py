"""Readings of the host and the engine are matched to the client's samples, and never invented."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engines.kinds.vllm import METRICS as VLLM
from lab.metrics.records import TelemetrySample
from tests.workers.load.behaviours import BEHAVIOURS
from tests.workers.load.openai_server import serve
from tests.workers.probes.gauges_page import EXPECTED, PAGE
from workers.load.client import Endpoint
from workers.probes.engine_metrics import Gauges
from workers.probes.nvml import NO_GPUS
from workers.probes.telemetry import Host, Reading, Telemetry, busy_and_all_s, merged


def sample(t_s: float) -> TelemetrySample:
    return TelemetrySample(t_s, loop_lag_ms=0.1, requests_in_flight=1, requests_done=0, chunks_received=0)


def reading(t_s: float) -> Reading:
    return Reading(t_s, {"host_cpu_percent": t_s})


@given(
    st.lists(st.floats(0, 100), max_size=20).map(sorted),
    st.lists(st.floats(0, 100), max_size=20).map(sorted),
)
def test_each_sample_has_the_nearest_reading_within_half_a_second_or_none(
    samples_s: list[float], readings_s: list[float]
) -> None:
    telemetry = merged([sample(t_s) for t_s in samples_s], [reading(t_s) for t_s in readings_s])
    assert [second.t_s for second in telemetry] == samples_s
    for second in telemetry:
        nearest_s = min((abs(t_s - second.t_s) for t_s in readings_s), default=1.0)
        if nearest_s > 0.5:
            assert second == sample(second.t_s)
        else:
            assert second.host_cpu_percent is not None
            assert abs(second.host_cpu_percent - second.t_s) == pytest.approx(nearest_s)


@pytest.mark.usefixtures("patient")
async def test_a_window_is_read_each_second_and_at_its_end() -> None:
    async with serve(BEHAVIOURS, PAGE) as server:
        telemetry = Telemetry(Gauges(Endpoint(server.base_url, "m"), (VLLM,)), NO_GPUS)
        async with telemetry.watching(), asyncio.timeout(600):
            while not telemetry.readings:  # noqa: ASYNC110 - no event of ours
                await asyncio.sleep(0.05)  # between two looks
            await asyncio.sleep(0.6)  # the next reading is the one at the end
    (at_s, *_, end_s) = (reading.t_s for reading in telemetry.readings)
    first, last = merged([sample(at_s), sample(end_s)], telemetry.readings)
    assert at_s > 0.9
    assert (first.engine_running, first.engine_waiting, first.kv_cache_usage) == (
        EXPECTED.engine_running,
        EXPECTED.engine_waiting,
        EXPECTED.kv_cache_usage,
    )
    assert last.engine_running is None  # it has nothing left to do
    for second in (first, last):
        assert second.host_cpu_percent is not None
        assert second.host_memory_used_bytes is not None
        assert (second.gpu_power_w, second.gpu_other_processes) == (None, None)


async def test_a_window_that_is_given_up_leaves_no_probe_behind() -> None:
    async with serve(BEHAVIOURS, PAGE) as server:
        telemetry = Telemetry(Gauges(Endpoint(server.base_url, "m"), (VLLM,)), NO_GPUS)
        with pytest.raises(RuntimeError, match="given up"):
            async with telemetry.watching():
                raise RuntimeError("given up")
        assert asyncio.all_tasks() == {asyncio.current_task()} | server_tasks()


@pytest.mark.usefixtures("patient")
async def test_a_page_that_takes_its_engine_long_is_read_less_often() -> None:
    asked = list[float]()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.append(time.monotonic())
        await asyncio.sleep(0.7)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 27\r\n\r\nvllm:num_requests_running 3")
        writer.close()

    server = await asyncio.start_server(slow, "127.0.0.1", 0)
    async with server:
        endpoint = Endpoint(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", "m")
        async with Telemetry(Gauges(endpoint, (VLLM,)), NO_GPUS).watching():
            await asyncio.sleep(3.6)
    assert len(asked) == 1


async def test_what_a_probe_raises_is_a_bug_and_not_swallowed() -> None:
    telemetry = Telemetry(Gauges(Endpoint("http://127.0.0.1:1", "m"), (VLLM,)), NO_GPUS)
    telemetry._read_machine = None  # type: ignore[method-assign,assignment] # a bug made on purpose
    with pytest.raises(TypeError):
        async with telemetry.watching():
            await asyncio.sleep(1.2)


def server_tasks() -> set[asyncio.Task[object]]:
    """Those of the server in this test's own loop."""
    return {task for task in asyncio.all_tasks() if "connection" in repr(task.get_coro())}


class MacTimes(NamedTuple):
    user: float
    nice: float
    system: float
    idle: float


class LinuxTimes(NamedTuple):
    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    irq: float
    softirq: float
    steal: float
    guest: float
    guest_nice: float


def test_a_guests_time_counts_once_and_waiting_for_a_disk_never() -> None:
    assert busy_and_all_s(LinuxTimes(10, 1, 5, 100, 20, 1, 1, 2, 3, 1)) == (20.0, 140.0)
    assert busy_and_all_s(MacTimes(10, 1, 5, 100)) == (16.0, 116.0)


def test_a_busy_processor_is_seen() -> None:
    host, end_s = Host(), time.perf_counter() + 0.3
    while time.perf_counter() < end_s:
        pass
    reading = host.read()
    assert 90 / (psutil.cpu_count() or 1) < reading["host_cpu_percent"] <= 100
    assert 0 < reading["host_memory_used_bytes"] < psutil.virtual_memory().total


def test_use_without_any_idle_time_is_100_percent_and_not_more(monkeypatch: pytest.MonkeyPatch) -> None:
    began = LinuxTimes(194.34, 39103.48, 625.43, 7026.44, 53967.97, 835.48, 312535.28, 997.14, 0.0, 0.0)
    monkeypatch.setattr(psutil, "cpu_times", lambda: began)
    host = Host()
    monkeypatch.setattr(psutil, "cpu_times", lambda: began._replace(user=194.65))
    assert host.read()["host_cpu_percent"] == 100.0


def test_without_any_time_between_two_readings_the_use_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "cpu_times", lambda: MacTimes(10, 1, 5, 100))
    assert Host().read()["host_cpu_percent"] is None
