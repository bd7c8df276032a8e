"""The probes of a measured window, read once a second in threads, a slow engine's gauges less often."""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import psutil

from lab.metrics.records import TelemetrySample
from workers.engine_runtime.launch import Process
from workers.engine_runtime.process import NoProcess
from workers.probes.engine_metrics import GaugeReading, Gauges
from workers.probes.machine import MachineLoad
from workers.probes.nvml import EngineGpus, OtherProcesses, combine, read_gpu

_EVERY_S = 1.0
#: Most of the time in which an engine may be busy with its page of gauges.
_MOST_TIME_SHARE = 0.1
#: Most seconds between a reading and the client's sample that it belongs to.
_BELONGS_WITHIN_S = _EVERY_S / 2
NOT_OURS = NoProcess()


@dataclass(frozen=True)
class Reading:
    """The probes' values at `t_s` of the run: fields of a TelemetrySample."""

    t_s: float
    fields: dict[str, Any]


class Telemetry:
    """Reads host, GPUs and the engine's gauges each second of one window."""

    def __init__(
        self,
        gauges: Gauges,
        of_engine: EngineGpus,
        idle: Collection[Process] = (),
        engine: Process = NOT_OURS,
        *,
        from_s: float = 0.0,
    ) -> None:
        """`engine`: the measured one, and `idle`: engines of other arms that are up beside it. `from_s`: measured
        seconds of the run before.
        """
        self.readings: list[Reading] = []
        self._from_s = from_s
        self._gauges, self._gpus, self._others = gauges, of_engine.gpus, OtherProcesses(of_engine, idle)
        self._gauges_rest_until_s = 0.0
        self._engines = (engine, *idle)
        self._one_at_a_time = threading.Lock()  # a cancelled read continues in its thread

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Read once a second; enter this just before the window begins. An exception of a probe is a bug, raised at the
        end.
        """
        self._load = await asyncio.to_thread(MachineLoad, self._engines)
        self._start_s, self._host = time.perf_counter() - self._from_s, Host()
        watcher = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher
        self.readings.append(await asyncio.to_thread(self._read_machine, self._clock()))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S - self._clock() % _EVERY_S)
            machine = asyncio.to_thread(self._read_machine, self._clock())
            reading, gauges = await asyncio.gather(machine, self._read_gauges())
            self.readings.append(replace(reading, fields=reading.fields | asdict(gauges)))

    async def _read_gauges(self) -> GaugeReading:
        began_s = self._clock()
        if began_s < self._gauges_rest_until_s:
            return GaugeReading()
        reading = await self._gauges.read()
        took_s = self._clock() - began_s
        self._gauges_rest_until_s = began_s + took_s / _MOST_TIME_SHARE
        return reading

    def _read_machine(self, t_s: float) -> Reading:
        """Read host and GPUs; the engine's gauges are not read at the end, when it is idle."""
        with self._one_at_a_time:
            used = self._host.read() | combine([read_gpu(gpu) for gpu in self._gpus])
            used |= {"gpu_other_processes": self._others.count()} | self._load.read()
        return Reading(t_s, used | asdict(GaugeReading()))

    def _clock(self) -> float:
        return time.perf_counter() - self._start_s


def merged(telemetry: Sequence[TelemetrySample], readings: Sequence[Reading]) -> tuple[TelemetrySample, ...]:
    """Return each sample with the reading nearest in time, or unchanged if there is none near enough.

    `readings` must be sorted by time.
    """
    times_s = [reading.t_s for reading in readings]

    def with_nearest(sample: TelemetrySample) -> TelemetrySample:
        after = bisect.bisect(times_s, sample.t_s)
        around = readings[max(0, after - 1) : after + 1]
        nearest = min(around, key=lambda reading: abs(reading.t_s - sample.t_s), default=None)
        if nearest is None or abs(nearest.t_s - sample.t_s) > _BELONGS_WITHIN_S:
            return sample
        return replace(sample, **nearest.fields)

    return tuple(map(with_nearest, telemetry))


class Host:
    """Computes the load since its last reading, or since its creation."""

    def __init__(self) -> None:
        self._before = busy_and_all_s(psutil.cpu_times())

    def read(self) -> dict[str, Any]:
        """Return fields of a TelemetrySample. The load is None if no time has passed since the last reading; the memory
        is the total minus what is available without swapping.
        """
        before, self._before = self._before, busy_and_all_s(psutil.cpu_times())
        busy_s, all_s = (now - then for now, then in zip(self._before, before, strict=True))
        memory = psutil.virtual_memory()
        # sums since the host's start differ in their last digits: without any idle time it would be a little over 100
        cpu_percent = min(100.0, 100 * busy_s / all_s) if all_s > 0 else None
        return {"host_cpu_percent": cpu_percent, "host_memory_used_bytes": memory.total - memory.available}


def busy_and_all_s(times: Any) -> tuple[float, float]:
    """Return the seconds that the processors worked, and all their seconds.

    Linux counts a guest's time as user time already; waiting for a disk is not work.
    """
    spent: dict[str, float] = times._asdict()
    all_s = sum(spent.values()) - spent.get("guest", 0.0) - spent.get("guest_nice", 0.0)
    return all_s - spent["idle"] - spent.get("iowait", 0.0), all_s
