"""The probes of a measured window, read once a second in threads and with one small request."""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import aiohttp

from lab.metrics.records import TelemetrySample
from workers.engine_runtime.launch import RunningEngine
from workers.probes.engine_gpus import EngineGpus, OtherProcesses, engine_gpus
from workers.probes.engine_metrics import GaugeReading, Gauges
from workers.probes.host import Host
from workers.probes.nvml import combine, read_gpu

_EVERY_S = 1.0
#: A reading belongs to the client's sample that was taken within this time of it.
_BELONGS_WITHIN_S = _EVERY_S / 2


@dataclass(frozen=True)
class Reading:
    """The probes' values at `t_s` of the window: fields of a TelemetrySample."""

    t_s: float
    fields: dict[str, Any]


class Probes:
    """The probes of one window: `watching` around it, then `beside` for its samples."""

    def __init__(self, gauges: Gauges, of_engine: EngineGpus) -> None:
        self.of_engine = of_engine
        self._gauges = gauges
        self._others = OtherProcesses(of_engine)
        self._readings: list[Reading] = []
        self._one_at_a_time = threading.Lock()  # a cancelled read goes on in its thread

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Enter it just before the window begins. An exception of a probe is a bug, and raised at the end."""
        self._start_s, self._host = time.perf_counter(), Host()
        watcher = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher
        self._readings.append(await asyncio.to_thread(self._read_machine, self._clock()))

    def beside(self, telemetry: Sequence[TelemetrySample]) -> tuple[TelemetrySample, ...]:
        return merged(telemetry, self._readings)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S - self._clock() % _EVERY_S)
            reading, gauges = await asyncio.gather(
                asyncio.to_thread(self._read_machine, self._clock()), self._gauges.read()
            )
            self._readings.append(replace(reading, fields=reading.fields | asdict(gauges)))

    def _read_machine(self, t_s: float) -> Reading:
        """Read host and GPUs; the engine's gauges are not read at the end, when it is idle."""
        with self._one_at_a_time:
            host = self._host.read()
            used = combine([read_gpu(gpu) for gpu in self.of_engine.gpus])
            used["gpu_other_processes"] = self._others.count()
        of_host = {"host_cpu_percent": host.cpu_percent, "host_memory_used_bytes": host.memory_used_bytes}
        return Reading(t_s, of_host | used | asdict(GaugeReading()))

    def _clock(self) -> float:
        return time.perf_counter() - self._start_s


async def probes_of(engine: RunningEngine, session: aiohttp.ClientSession) -> Probes:
    """Create the probes of an engine that has answered requests; finding its GPUs takes some milliseconds."""
    command = engine.command
    found = await asyncio.to_thread(engine_gpus, engine.process)
    return Probes(Gauges(session, command.endpoint.base_url, command.kind.metrics), found)


def merged(telemetry: Sequence[TelemetrySample], readings: Sequence[Reading]) -> tuple[TelemetrySample, ...]:
    """Return each sample with the reading nearest in time, or unchanged if there is none near enough.

    `readings` must be sorted by time.
    """
    times_s = [reading.t_s for reading in readings]

    def with_nearest(sample: TelemetrySample) -> TelemetrySample:
        place = bisect.bisect(times_s, sample.t_s)
        around = readings[max(0, place - 1) : place + 1]
        nearest = min(around, key=lambda reading: abs(reading.t_s - sample.t_s), default=None)
        if nearest is None or abs(nearest.t_s - sample.t_s) > _BELONGS_WITHIN_S:
            return sample
        return replace(sample, **nearest.fields)

    return tuple(map(with_nearest, telemetry))
