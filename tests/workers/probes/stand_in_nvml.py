"""NVML's C interface without a GPU: the functions that the real `pynvml` calls, with the same arguments.

Two GPUs. The first tells everything; the second has no power sensor and no reasons for its clocks, as small ones do.
"""

# ruff: noqa: N802, ARG002 - the names and arguments are NVML's
from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable
from typing import Any

import pynvml

SUCCESS, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE = 0, 3, 6, 7
HANDLES = (0x1000, 0x2000)
UUIDS = ("GPU-aaaa", "GPU-bbbb")
#: Puts a stand-in in the place of the library.
Install = Callable[["StandInNvml"], "StandInNvml"]


class StandInNvml:
    """In the place of the loaded library. `pids`: what computes on each GPU."""

    handles: tuple[int, ...] = HANDLES

    def __init__(self, pids: dict[int, tuple[int, ...]] | None = None, *, old_driver: bool = False) -> None:
        self.pids = pids or {}
        self.power_mw = itertools.cycle((250_000, 350_000))
        self.counted_mw, self.limit_mw = 300_000, 700_000
        self._old = old_driver
        self._kept: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if (self._old and name == "nvmlDeviceGetCurrentClocksEventReasons") or not hasattr(type(self), f"_{name}"):
            raise AttributeError(name)
        function = getattr(self, f"_{name}")
        count = function.__code__.co_argcount - 1
        called = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * count)(function)
        self._kept[name] = called  # ctypes keeps no callback alive by itself
        address = ctypes.cast(called, ctypes.c_void_p).value
        return ctypes.CFUNCTYPE(ctypes.c_int)(
            address or 0
        )  # takes whatever it is given, as a function of a library does

    def uuid(self, handle: int) -> str:
        return UUIDS[self.handles.index(handle)]

    def _nvmlInitWithFlags(self, flags: int) -> int:
        return SUCCESS

    def _nvmlDeviceGetCount_v2(self, count: int) -> int:
        return _put(ctypes.c_uint, count, len(self.handles))

    def _nvmlSystemGetDriverVersion(self, text: int, length: int) -> int:
        return _text(text, "580.65.06")

    def _nvmlSystemGetCudaDriverVersion_v2(self, version: int) -> int:
        return _put(ctypes.c_int, version, 13_000)

    def _nvmlDeviceGetCudaComputeCapability(self, handle: int, major: int, minor: int) -> int:
        assert handle in self.handles
        _put(ctypes.c_int, minor, 0)
        return _put(ctypes.c_int, major, 9)

    def _nvmlDeviceGetHandleByIndex_v2(self, index: int | None, handle: int) -> int:
        return _put(ctypes.c_void_p, handle, self.handles[index or 0])

    def _nvmlDeviceGetName(self, handle: int, text: int, length: int) -> int:
        return _text(text, "NVIDIA H200")

    def _nvmlDeviceGetUUID(self, handle: int, text: int, length: int) -> int:
        return _text(text, self.uuid(handle))

    def _nvmlDeviceGetPowerUsage(self, handle: int, milliwatts: int) -> int:
        return NOT_SUPPORTED if handle == HANDLES[1] else _put(ctypes.c_uint, milliwatts, next(self.power_mw))

    def _nvmlDeviceGetTotalEnergyConsumption(self, handle: int, millijoules: int) -> int:
        """What the mean of its power is since some moment in the past."""
        counted = int(time.monotonic() * self.counted_mw)
        return NOT_SUPPORTED if handle == HANDLES[1] else _put(ctypes.c_ulonglong, millijoules, counted)

    def _nvmlDeviceGetEnforcedPowerLimit(self, handle: int, milliwatts: int) -> int:
        return NOT_SUPPORTED if handle == HANDLES[1] else _put(ctypes.c_uint, milliwatts, self.limit_mw)

    def _nvmlDeviceGetPowerManagementDefaultLimit(self, handle: int, milliwatts: int) -> int:
        return NOT_SUPPORTED if handle == HANDLES[1] else _put(ctypes.c_uint, milliwatts, 700_000)

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
        return _put(ctypes.c_uint, mhz, by_kind[kind][self.handles.index(handle)])

    def _nvmlDeviceGetTemperature(self, handle: int, sensor: int | None, celsius: int) -> int:
        return _put(ctypes.c_uint, celsius, 61 if handle == HANDLES[0] else 74)

    def _nvmlDeviceGetCurrentClocksEventReasons(self, handle: int, reasons: int) -> int:
        return NOT_SUPPORTED if handle == HANDLES[1] else _put(ctypes.c_ulonglong, reasons, 0x4 | 0x20)

    def _nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int, reasons: int) -> int:
        return _put(ctypes.c_ulonglong, reasons, 0x1)

    def _nvmlDeviceGetProcessUtilization(self, handle: int, samples: int | None, count: int, since_us: int) -> int:
        """Two samples of each process: 10 and 30 % of the multiprocessors, and none where nothing computes."""
        shares = [(pid, share) for pid in self.pids.get(self.handles.index(handle), ()) for share in (10, 30)]
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
        pids = self.pids.get(self.handles.index(handle), ())
        room = ctypes.cast(count, ctypes.POINTER(ctypes.c_uint)).contents.value
        _put(ctypes.c_uint, count, len(pids))
        if room < len(pids):
            return INSUFFICIENT_SIZE
        array = ctypes.cast(processes, ctypes.POINTER(pynvml.c_nvmlProcessInfo_v3_t)) if processes else None
        for place, pid in enumerate(pids):
            assert array is not None
            array[place].pid = pid
        return SUCCESS


class EightGpus(StandInNvml):
    """Eight GPUs, of which every second is on the second NUMA node, with processors 0-3 and 4-7.

    `linked`: pairs that a bridge of NVLink connects. A host `without_topology` answers nothing of all that.
    """

    handles = tuple(0x1000 * number for number in range(1, 9))

    def __init__(
        self,
        pids: dict[int, tuple[int, ...]] | None = None,
        *,
        linked: tuple[tuple[int, int], ...] = (),
        without_topology: bool = False,
    ) -> None:
        super().__init__(pids)
        self._linked, self._without = {frozenset(pair) for pair in linked}, without_topology

    def uuid(self, handle: int) -> str:
        return f"GPU-{self.handles.index(handle)}"

    def _nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int, level: int) -> int:
        if self._without:
            return NOT_SUPPORTED
        is_near = (self.handles.index(one) - self.handles.index(other)) % 2 == 0
        return _put(ctypes.c_uint, level, pynvml.NVML_TOPOLOGY_NODE if is_near else pynvml.NVML_TOPOLOGY_SYSTEM)

    def _nvmlDeviceGetP2PStatus(self, one: int, other: int, what: int, status: int) -> int:
        assert what == pynvml.NVML_P2P_CAPS_INDEX_NVLINK
        pair = frozenset((self.handles.index(one), self.handles.index(other)))
        found = pynvml.NVML_P2P_STATUS_OK if pair in self._linked else pynvml.NVML_P2P_STATUS_NOT_SUPPORTED
        return _put(ctypes.c_uint, status, found)

    def _nvmlDeviceGetCpuAffinity(self, handle: int, words: int, mask: int) -> int:
        return (
            NOT_SUPPORTED if self._without else _put(ctypes.c_ulonglong, mask, (0x0F, 0xF0)[handle // 0x1000 % 2 == 0])
        )


class SlicedGpus(StandInNvml):
    """The second of the two GPUs is sliced: three places, of which the second is empty. `pids` 2 and 3 are the slices.

    What NVML does not say of a slice is not supported.
    """

    slices = (0x2001, None, 0x2002)

    @property
    def handles(self) -> tuple[int, ...]:  # type: ignore[override]
        return (*HANDLES, *filter(None, self.slices))

    def uuid(self, handle: int) -> str:
        return super().uuid(handle) if handle in HANDLES else f"MIG-{handle - 0x2000}"

    def _nvmlDeviceGetCount_v2(self, count: int) -> int:
        return _put(ctypes.c_uint, count, len(HANDLES))

    def _nvmlDeviceGetCpuAffinity(self, handle: int, words: int, mask: int) -> int:
        return _put(ctypes.c_ulonglong, mask, 0xF0 if handle == HANDLES[0] else 0x0F)

    def _nvmlDeviceGetMigMode(self, handle: int, current: int, pending: int) -> int:
        _put(ctypes.c_uint, pending, 0)
        return NOT_SUPPORTED if handle == HANDLES[0] else _put(ctypes.c_uint, current, 1)

    def _nvmlDeviceGetMaxMigDeviceCount(self, handle: int, count: int) -> int:
        return _put(ctypes.c_uint, count, len(self.slices))

    def _nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, place: int | None, found: int) -> int:
        of_place = self.slices[place or 0]
        return NOT_FOUND if of_place is None else _put(ctypes.c_void_p, found, of_place)

    def _nvmlDeviceGetMemoryInfo(self, handle: int, memory: int) -> int:
        super()._nvmlDeviceGetMemoryInfo(handle, memory)
        if handle not in HANDLES:
            ctypes.cast(memory, ctypes.POINTER(pynvml.c_nvmlMemory_t)).contents.used = 7 << 30
        return SUCCESS


def _put(kind: Any, address: int, value: int) -> int:
    """`kind` is one of ctypes' own integers."""
    ctypes.cast(address, ctypes.POINTER(kind))[0] = value
    return SUCCESS


def _text(address: int, text: str) -> int:
    ctypes.memmove(address, text.encode() + b"\0", len(text) + 1)
    return SUCCESS
