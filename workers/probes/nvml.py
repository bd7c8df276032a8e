"""NVIDIA GPUs by NVML, and the GPUs that an engine uses: never guessed, and stored with the evidence.

A host without the library or without a GPU has none, without an error. Every function may be called from any thread,
and takes a few milliseconds at most once the library is open.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pynvml

from jobs.engines.hardware import Device
from jobs.engines.profiles import MARK
from workers.engine_runtime.process import EngineProcess, NoProcess, marked

logger = logging.getLogger(__name__)
T = TypeVar("T")

#: NVML's bits of reasons that limit a clock.
_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}


#: Functions that list the processes on a GPU (direct, and through the MPS server), newest version first.
_PROCESS_LISTS = (
    (pynvml.nvmlDeviceGetComputeRunningProcesses_v3, pynvml.nvmlDeviceGetComputeRunningProcesses_v2),
    (pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v3, pynvml.nvmlDeviceGetMPSComputeRunningProcesses_v2),
)
#: The inode of Linux's initial PID namespace is fixed; a container has another one.
_FIRST_PID_NAMESPACE = 0xEFFFFFFC


@dataclass(frozen=True)
class Gpu:
    """One GPU of this host, or a slice of one (MIG)."""

    handle: Any  # NVML's
    index: int  # NVML's, in the order of the PCI bus; of a slice, that of its GPU
    name: str
    uuid: str
    board: Any  # NVML's handle of the whole GPU

    @property
    def device(self) -> Device:
        return self.uuid if self.is_slice else self.index

    @property
    def is_slice(self) -> bool:
        return self.board is not self.handle

    def __str__(self) -> str:
        return f"{self.name} ({self.uuid})"


@dataclass(frozen=True)
class GpuReading:
    """One GPU at one point in time; None for unreported values."""

    utilisation_percent: float | None
    memory_used_bytes: int | None
    power_w: float | None  # of the whole board, so unknown for a slice (MIG)
    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    temperature_c: float | None
    throttle_reasons: frozenset[str] | None


@functools.cache
def gpus() -> tuple[Gpu, ...]:
    """Return every GPU that this process may see, a sliced one by its slices; none if NVML cannot be opened."""
    try:
        pynvml.nvmlInit()
        return tuple(gpu for index in range(pynvml.nvmlDeviceGetCount()) for gpu in _gpus_at(index))
    except pynvml.NVMLError as error:
        if not isinstance(error, pynvml.NVMLError_LibraryNotFound):  # the usual host without a GPU
            logger.warning("the GPUs cannot be monitored: NVML reports %s", error)
        return ()


def driver_version() -> str | None:
    """Return the NVIDIA driver's version; None without a GPU."""
    return str(pynvml.nvmlSystemGetDriverVersion()) if gpus() else None


def cuda_of_driver() -> int | None:
    """Return the newest CUDA version that the driver supports (12040 is 12.4); None without a GPU, or if unknown."""
    return known(pynvml.nvmlSystemGetCudaDriverVersion_v2) if gpus() else None


def processes_on(gpu: Gpu) -> set[int] | None:
    """Return the pids that compute on this GPU, by the driver's numbers, which may differ inside a container.

    None if the driver does not list them. Not every driver can list processes that come through the MPS server.
    """

    def first_known(functions: Iterable[Callable[[Any], Iterable[Any]]]) -> Iterable[Any] | None:
        listed = (known(functools.partial(function, gpu.handle)) for function in functions)
        return next((processes for processes in listed if processes is not None), None)

    alone, through_mps = map(first_known, _PROCESS_LISTS)
    return None if alone is None else {int(process.pid) for process in (*alone, *(through_mps or ()))}


def process_utilisation(gpu: Gpu, since_us: int) -> dict[int, float] | None:
    """Return by pid the share of the multiprocessors' time, in percent, since `since_us` (microseconds since 1970).
    Processes without any are left out. None if the driver does not report it.
    """
    try:
        samples = known(lambda: list(pynvml.nvmlDeviceGetProcessUtilization(gpu.handle, since_us)))
    except pynvml.NVMLError_NotFound:  # no process took any
        return {}
    if samples is None:
        return None
    taken: dict[int, list[float]] = {}
    for sample in samples:
        taken.setdefault(int(sample.pid), []).append(float(sample.smUtil))
    return {pid: sum(shares) / len(shares) for pid, shares in taken.items()}


def read_gpu(gpu: Gpu) -> GpuReading:
    """Read a GPU. A slice (MIG) reports its own memory, and its board's clocks and temperature. Its power and its share
    of the multiprocessors' time are unknown: the board's values include other slices.
    """
    board = gpu.board
    milliwatts = None if gpu.is_slice else known(lambda: pynvml.nvmlDeviceGetPowerUsage(board))
    busy = None if gpu.is_slice else known(lambda: float(pynvml.nvmlDeviceGetUtilizationRates(board).gpu))
    reasons = known(lambda: _reasons(board))
    return GpuReading(
        utilisation_percent=busy,
        memory_used_bytes=known(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(gpu.handle).used)),
        power_w=None if milliwatts is None else milliwatts / 1000,
        sm_clock_mhz=known(lambda: float(pynvml.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_SM))),
        memory_clock_mhz=known(lambda: float(pynvml.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_MEM))),
        temperature_c=known(lambda: float(pynvml.nvmlDeviceGetTemperature(board, pynvml.NVML_TEMPERATURE_GPU))),
        throttle_reasons=None if reasons is None else reason_names(reasons),
    )


def reason_names(bits: int) -> frozenset[str]:
    """Return the names of a bit mask of reasons; a bit newer than our list appears as a number."""
    ours = {name for bit, name in _REASONS.items() if bits & bit}
    return frozenset(ours | {f"{1 << bit:#x}" for bit in range(64) if bits & (1 << bit) & ~sum(_REASONS)})


def combine(readings: Collection[GpuReading]) -> dict[str, Any]:
    """Return the fields of a TelemetrySample; a value missing for one GPU is unknown for all."""

    def over(field: str, combine: Callable[[list[Any]], Any]) -> Any:
        values = [getattr(reading, field) for reading in readings]
        return None if not values or None in values else combine(values)

    return {
        "gpu_utilisation_percent": over("utilisation_percent", lambda values: sum(values) / len(values)),
        "gpu_memory_used_bytes": over("memory_used_bytes", sum),
        "gpu_power_w": over("power_w", sum),
        "gpu_sm_clock_mhz": over("sm_clock_mhz", min),
        "gpu_memory_clock_mhz": over("memory_clock_mhz", min),
        "gpu_temperature_c": over("temperature_c", max),
        "gpu_throttle_reasons": over("throttle_reasons", lambda values: ",".join(sorted(frozenset().union(*values)))),
    }


def _gpus_at(index: int) -> list[Gpu]:
    board = pynvml.nvmlDeviceGetHandleByIndex(index)
    return [
        Gpu(handle, index, str(pynvml.nvmlDeviceGetName(handle)), str(pynvml.nvmlDeviceGetUUID(handle)), board)
        for handle in _slices(board) or [board]
    ]


def _slices(board: Any) -> list[Any]:
    """Return the slices of a GPU; none if it is used as a whole. Numbers without a slice count as not found."""
    mode = known(lambda: list(pynvml.nvmlDeviceGetMigMode(board)))
    if mode is None or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return []
    slices = []
    for number in range(known(lambda: int(pynvml.nvmlDeviceGetMaxMigDeviceCount(board))) or 0):
        with contextlib.suppress(pynvml.NVMLError_NotFound, pynvml.NVMLError_InvalidArgument):
            slices.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(board, number))
    return slices


def _reasons(handle: Any) -> int:
    """Read the reasons; drivers before 535 have the function only under its old name."""
    try:
        return int(pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    except pynvml.NVMLError_FunctionNotFound:
        return int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


def known(read: Callable[[], T]) -> T | None:
    """Return None for values that this GPU, its driver or our rights do not offer; warn once about any other error."""
    try:
        return read()
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_NoPermission):
        return None
    except pynvml.NVMLError_NotFound:
        raise
    except pynvml.NVMLError as error:
        _warn_once(str(error))
        return None


@functools.cache
def _warn_once(error: str) -> None:
    logger.warning("a value of a GPU cannot be read: NVML reports %s", error)


@dataclass(frozen=True)
class EngineGpus:
    """The GPUs that an engine uses; empty if it uses none or if that is unknown."""

    gpus: tuple[Gpu, ...] = ()
    found_by: str | None = None
    engine: EngineProcess | None = None  # set if its processes were found on them: then the driver's pids are ours


NO_GPUS = EngineGpus()


def engine_gpus(process: EngineProcess | NoProcess) -> EngineGpus:
    """Find the GPUs of an engine by its processes; call this once the engine is up. If this container numbers processes
    differently than the driver, use CUDA_VISIBLE_DEVICES in the engine's environment, or else all GPUs of the
    container.
    """
    present = gpus()
    if not present or isinstance(process, NoProcess):
        return NO_GPUS
    try:
        guard = psutil.Process(process.guard.pid)
        # its own descendants, and what carries its mark (a container's processes are not our descendants)
        found = (*guard.children(recursive=True), *marked(process.mark_file.stem))
        ours, environment = {other.pid for other in found}, guard.environ()
    except psutil.Error:  # it has just ended
        return NO_GPUS
    if used := tuple(gpu for gpu in present if ours & (processes_on(gpu) or set())):
        return EngineGpus(used, "the processes of the engine", process)
    if pids_are_the_drivers():
        return NO_GPUS
    if (listed := environment.get("CUDA_VISIBLE_DEVICES")) is not None:
        return EngineGpus(visible(present, listed), "CUDA_VISIBLE_DEVICES")
    return EngineGpus(present, "all of this container's")


class OtherProcesses:
    """Counts the processes on an engine's GPUs that are not the engine's."""

    def __init__(self, gpus: EngineGpus, idle: Iterable[EngineProcess | NoProcess] = ()) -> None:
        """`idle`: engines of other arms, which do not count as others."""
        self._gpus = gpus
        self._idle = [engine for engine in idle if isinstance(engine, EngineProcess)]
        self._ours: set[int] = set()  # so that each is examined once

    def count(self) -> int | None:
        """Count other processes; None without a GPU, or if an owner is unknown. May be called from any thread."""
        engine, by_gpu = self._gpus.engine, [processes_on(gpu) for gpu in self._gpus.gpus]
        counted = [pids for pids in by_gpu if pids is not None]
        if engine is None or not counted or len(counted) < len(by_gpu):
            return None
        unknown = frozenset().union(*counted) - self._ours
        self._ours |= {pid for pid in unknown if any(_is_of(process, pid) for process in (engine, *self._idle))}
        return len(unknown - self._ours)


def _is_of(engine: EngineProcess, pid: int) -> bool:
    """Return whether this process carries the engine's mark, or descends from its guard."""
    try:
        process = psutil.Process(pid)
        if engine.guard.pid in {parent.pid for parent in process.parents()}:
            return True
        return process.environ().get(MARK) == engine.mark_file.stem
    except (psutil.Error, OSError):  # it has just ended, or is another user's
        return False


def visible(present: tuple[Gpu, ...], listed: str) -> tuple[Gpu, ...]:
    """Return the GPUs that CUDA_VISIBLE_DEVICES lists, by number or by a UUID's beginning.

    Slices (MIG) have UUIDs only. As in CUDA, everything after the first unknown GPU is ignored.
    """
    visible_gpus: list[Gpu] = []
    for word in filter(None, (part.strip() for part in listed.split(","))):
        match = [gpu for gpu in present if gpu.uuid.startswith(word) or (str(gpu.index) == word and not gpu.is_slice)]
        if len(match) != 1:
            break
        visible_gpus += match
    return tuple(visible_gpus)


def pids_are_the_drivers() -> bool:
    """Return whether process numbers here are those of the driver, as they are outside of containers."""
    namespace = Path("/proc/self/ns/pid")
    return not namespace.exists() or namespace.stat().st_ino == _FIRST_PID_NAMESPACE
