"""NVML's C interface without a GPU: the functions that the real `pynvml` calls, with the same arguments.

Two GPUs. The first tells everything; the second has no power sensor and no reasons for its clocks, as small ones do.
"""

# ruff: noqa: N802, ARG002 - the names and arguments are NVML's
from __future__ import annotations

import ctypes
import itertools
from typing import Any

import pynvml

SUCCESS, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 0, 3, 6, 7
HANDLES = (0x1000, 0x2000)
UUIDS = ("GPU-aaaa", "GPU-bbbb")


class StandInNvml:
    """In the place of the loaded library. `pids`: what computes on each GPU."""

    def __init__(self, pids: dict[int, tuple[int, ...]] | None = None, *, old_driver: bool = False) -> None:
        self.pids = pids or {}
        self.power_mw = itertools.cycle((250_000, 350_000))
        self._old = old_driver
        self._kept: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if (self._old and name == "nvmlDeviceGetCurrentClocksEventReasons") or f"_{name}" not in type(self).__dict__:
            raise AttributeError(name)
        function = getattr(self, f"_{name}")
        count = function.__code__.co_argcount - 1
        called = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * count)(function)
        self._kept[name] = called  # ctypes keeps no callback alive by itself
        address = ctypes.cast(called, ctypes.c_void_p).value
        return ctypes.CFUNCTYPE(ctypes.c_int)(
            address or 0
        )  # takes whatever it is given, as a function of a library does

    def _nvmlInitWithFlags(self, flags: int) -> int:
        return SUCCESS

    def _nvmlDeviceGetCount_v2(self, count: int) -> int:
        return _put(ctypes.c_uint, count, len(HANDLES))

    def _nvmlSystemGetDriverVersion(self, text: int, length: int) -> int:
        return _text(text, "580.65.06")

    def _nvmlDeviceGetHandleByIndex_v2(self, index: int | None, handle: int) -> int:
        return _put(ctypes.c_void_p, handle, HANDLES[index or 0])

    def _nvmlDeviceGetName(self, handle: int, text: int, length: int) -> int:
        return _text(text, "NVIDIA H200")

    def _nvmlDeviceGetUUID(self, handle: int, text: int, length: int) -> int:
        return _text(text, UUIDS[HANDLES.index(handle)])

    def _nvmlDeviceGetPowerUsage(self, handle: int, milliwatts: int) -> int:
        return NOT_SUPPORTED if handle == HANDLES[1] else _put(ctypes.c_uint, milliwatts, next(self.power_mw))

    def _nvmlDeviceGetUtilizationRates(self, handle: int, rates: int) -> int:
        contents = ctypes.cast(rates, ctypes.POINTER(pynvml.c_nvmlUtilization_t)).contents
        contents.gpu, contents.memory = (90, 40) if handle == HANDLES[0] else (70, 30)
        return SUCCESS

    def _nvmlDeviceGetMemoryInfo(self, handle: int, memory: int) -> int:
        contents = ctypes.cast(memory, ctypes.POINTER(pynvml.c_nvmlMemory_t)).contents
        contents.total, contents.free, contents.used = 140 << 30, 20 << 30, 120 << 30
        return SUCCESS

    def _nvmlDeviceGetClockInfo(self, handle: int, kind: int, mhz: int) -> int:
        by_kind = {pynvml.NVML_CLOCK_SM: (1980, 1755), pynvml.NVML_CLOCK_MEM: (3201, 3201)}
        return _put(ctypes.c_uint, mhz, by_kind[kind][HANDLES.index(handle)])

    def _nvmlDeviceGetTemperature(self, handle: int, sensor: int | None, celsius: int) -> int:
        return _put(ctypes.c_uint, celsius, 61 if handle == HANDLES[0] else 74)

    def _nvmlDeviceGetCurrentClocksEventReasons(self, handle: int, reasons: int) -> int:
        return NOT_SUPPORTED if handle == HANDLES[1] else _put(ctypes.c_ulonglong, reasons, 0x4 | 0x20)

    def _nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int, reasons: int) -> int:
        return _put(ctypes.c_ulonglong, reasons, 0x1)

    def _nvmlDeviceGetProcessUtilization(self, handle: int, samples: int | None, count: int, since_us: int) -> int:
        """Two samples of each process: 10 and 30 % of the multiprocessors, and none where nothing computes."""
        shares = [(pid, share) for pid in self.pids.get(HANDLES.index(handle), ()) for share in (10, 30)]
        if not shares:
            return NOT_FOUND
        _put(ctypes.c_uint, count, len(shares))
        if samples is None:
            return INSUFFICIENT_SIZE
        array = ctypes.cast(samples, ctypes.POINTER(pynvml.c_nvmlProcessUtilizationSample_t))
        for place, (pid, share) in enumerate(shares):
            array[place].pid, array[place].smUtil = pid, share
        return SUCCESS

    def _nvmlDeviceGetComputeRunningProcesses_v3(self, handle: int, count: int, processes: int | None) -> int:
        pids = self.pids.get(HANDLES.index(handle), ())
        room = ctypes.cast(count, ctypes.POINTER(ctypes.c_uint)).contents.value
        _put(ctypes.c_uint, count, len(pids))
        if room < len(pids):
            return INSUFFICIENT_SIZE
        array = ctypes.cast(processes, ctypes.POINTER(pynvml.c_nvmlProcessInfo_v3_t)) if processes else None
        for place, pid in enumerate(pids):
            assert array is not None
            array[place].pid = pid
        return SUCCESS


def _put(kind: Any, address: int, value: int) -> int:
    """`kind` is one of ctypes' own integers."""
    ctypes.cast(address, ctypes.POINTER(kind))[0] = value
    return SUCCESS


def _text(address: int, text: str) -> int:
    ctypes.memmove(address, text.encode() + b"\0", len(text) + 1)
    return SUCCESS
