"""The hardware of this host: accelerators and processors."""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path


def hardware_name() -> str:
    """Return the accelerators, or the processor without any: `NVIDIA H200`, `2 x NVIDIA H200`, `AMD EPYC 7B13`."""
    gpus = nvidia_gpus()
    if not gpus:
        return processor_name()
    return " + ".join(f"{gpus.count(name)} x {name}" if gpus.count(name) > 1 else name for name in dict.fromkeys(gpus))


_used: list[tuple[int, ...]] = []


def use_only(gpus: Sequence[int]) -> None:
    """From now on this process has these GPUs of the host alone."""
    _used[:] = [tuple(gpus)]


def nvidia_gpus() -> tuple[str, ...]:
    """Return the names of the NVIDIA GPUs that this process may use, by default all; empty without a driver."""
    present = all_gpus()
    return tuple(present[gpu] for gpu in _used[0]) if _used else present


@functools.cache
def all_gpus() -> tuple[str, ...]:
    """Return the names of this host's NVIDIA GPUs; empty without a driver."""
    command = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip()) if done.returncode == 0 else ()


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
