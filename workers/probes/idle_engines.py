"""The processor time of other arms' engines while one arm is measured; it should be zero."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import psutil

from lab.metrics.records import IdleEngine
from workers.engine_runtime.process import EngineProcess, NoProcess, marked
from workers.probes.nvml import gpus, pids_are_the_drivers, process_utilisation


@dataclass
class IdleEngines:
    """Reads the processor time of idle engines, by the arm's name: `begin` before the window, `end` after it."""

    engines: Mapping[str, EngineProcess | NoProcess]
    _cpu_s: dict[str, dict[psutil.Process, float]] = field(default_factory=dict, init=False)
    _began_s: float = field(default=0.0, init=False)
    _began_us: int = field(default=0, init=False)  # since 1970, as NVML counts

    def begin(self) -> None:
        """Find the processes of the engines, which takes some milliseconds, and read their use so far."""
        for arm, engine in self.engines.items():
            processes = [] if isinstance(engine, NoProcess) else list(marked(engine.mark_file.stem))
            self._cpu_s[arm] = {process: used for process in processes if (used := _cpu_s(process)) is not None}
        self._began_s, self._began_us = time.perf_counter(), time.time_ns() // 1000

    def end(self) -> tuple[IdleEngine, ...]:
        """Return each engine's use since `begin`."""
        window_s = time.perf_counter() - self._began_s
        by_pid = self._gpu_percent_by_pid() if any(self._cpu_s.values()) else None
        return tuple(_idle_engine(arm, before, window_s, by_pid) for arm, before in self._cpu_s.items())

    def _gpu_percent_by_pid(self) -> dict[int, float] | None:
        """Return GPU use by pid; None without a GPU, or if the driver reports nothing or this container numbers
        processes differently.
        """
        if not gpus() or not pids_are_the_drivers():
            return None
        by_gpu = [process_utilisation(gpu, self._began_us) for gpu in gpus()]
        if None in by_gpu:
            return None
        percent_by_pid: dict[int, float] = {}
        for pid, percent in (item for of_gpu in by_gpu if of_gpu is not None for item in of_gpu.items()):
            percent_by_pid[pid] = percent_by_pid.get(pid, 0.0) + percent
        return percent_by_pid


def _idle_engine(
    arm: str, before: Mapping[psutil.Process, float], window_s: float, gpu_by_pid: Mapping[int, float] | None
) -> IdleEngine:
    if not before or window_s <= 0:
        return IdleEngine(arm=arm)
    used_s = sum(now - then for process, then in before.items() if (now := _cpu_s(process)) is not None)
    gpu_percent = None if gpu_by_pid is None else sum(gpu_by_pid.get(process.pid, 0.0) for process in before)
    return IdleEngine(arm=arm, cpu_percent=100 * used_s / window_s, gpu_percent=gpu_percent)


def _cpu_s(process: psutil.Process) -> float | None:
    """Return a process's CPU seconds; None if it has ended."""
    with contextlib.suppress(psutil.Error):
        times = process.cpu_times()
        return float(times.user + times.system)
    return None
