"""The hardware of this host: accelerators and processors."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_GPU = re.compile(r"GPU (?P<number>\d+): (?P<name>.+) \(UUID: (?P<uuid>\S+)\)")
_SLICE = re.compile(r"\s+MIG (?P<profile>\S+)\s+Device\s+\d+: \(UUID: (?P<uuid>\S+)\)")


def hardware_name() -> str:
    """Return the accelerators, or the processor without any: `NVIDIA H200`, `2 x NVIDIA H200`, `AMD EPYC 7B13`."""
    gpus = nvidia_gpus()
    if not gpus:
        return processor_name()
    return " + ".join(f"{gpus.count(name)} x {name}" if gpus.count(name) > 1 else name for name in dict.fromkeys(gpus))


#: A GPU as CUDA_VISIBLE_DEVICES names it: by its number, a slice of one (MIG) by its UUID.
Device = int | str


@dataclass(frozen=True)
class HostGpu:
    """A GPU of this host, or a slice of one."""

    device: Device
    name: str
    uuid: str
    number: int  # of the whole GPU, as by nvidia-smi


_used: list[tuple[Device, ...]] = []


def use_only(gpus: Sequence[Device]) -> None:
    """Restrict this process to these GPUs of the host."""
    _used[:] = [tuple(gpus)]


def nvidia_gpus() -> tuple[str, ...]:
    """Return the names of the NVIDIA GPUs that this process may use, by default all; empty without a driver."""
    return tuple(gpu.name for gpu in all_gpus() if not _used or gpu.device in _used[0])


@functools.cache
def all_gpus() -> tuple[HostGpu, ...]:
    """Return this host's NVIDIA GPUs, with the slices of those that are sliced (MIG); empty without a driver."""
    return gpus_now()


def gpus_now() -> tuple[HostGpu, ...]:
    """Return the GPUs that the driver lists now: one may have failed since this process began."""
    try:
        done = subprocess.run(("nvidia-smi", "-L"), capture_output=True, text=True, check=False, timeout=30)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ()
    return listed_gpus(done.stdout) if done.returncode == 0 else ()


def listed_gpus(text: str) -> tuple[HostGpu, ...]:
    """Read the list of `nvidia-smi -L`. A GPU that is sliced is replaced by its slices."""
    found: list[HostGpu] = []
    whole: HostGpu | None = None
    for line in text.splitlines():
        if match := _GPU.fullmatch(line.rstrip()):
            whole = HostGpu(int(match["number"]), match["name"], match["uuid"], int(match["number"]))
            found.append(whole)
        elif whole is not None and (match := _SLICE.fullmatch(line.rstrip())):
            found = [gpu for gpu in found if gpu != whole]
            found.append(HostGpu(match["uuid"], f"{whole.name} MIG {match['profile']}", match["uuid"], whole.number))
    return tuple(found)


@functools.cache
def memory_gb() -> tuple[float | None, bool]:
    """Return the memory of all GPUs together (true), or without any that of the host (false); None where unknown."""
    if not all_gpus():
        return psutil.virtual_memory().total / 1e9, False
    query = ("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=True, timeout=30)
        return sum(int(line) for line in done.stdout.split()) * 2**20 / 1e9, True
    except (OSError, subprocess.SubprocessError, ValueError):  # a part of it is unknown, as on a board that shares it
        return None, True


@functools.cache
def processor_name() -> str:
    """Return the processor's model name, or its architecture if it has none."""
    info = Path("/proc/cpuinfo")
    if info.exists() and (match := re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)):
        return " ".join(match[1].split())
    return platform.processor() or platform.machine()


def processors() -> list[int]:
    """Return the numbers of the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cores(numbers: Sequence[int]) -> dict[int, int]:
    """Return the first processor of each one's core: two processors of one core share it. Unknown ones are left out."""
    found = {}
    for number in numbers:
        with contextlib.suppress(OSError):
            listed = Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list").read_text()
            found[number] = int(re.split(r"[-,]", listed.strip())[0])
    return found
