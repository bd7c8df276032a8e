"""What this host computes with."""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
from pathlib import Path


def hardware_name() -> str:
    """The accelerators, or the processor where there is none: `NVIDIA H200`, `2 x NVIDIA H200`, `AMD EPYC 7B13`."""
    gpus = nvidia_gpus()
    if not gpus:
        return processor_name()
    return " + ".join(f"{gpus.count(name)} x {name}" if gpus.count(name) > 1 else name for name in dict.fromkeys(gpus))


@functools.cache
def nvidia_gpus() -> tuple[str, ...]:
    """The names of the NVIDIA GPUs of this host; none where there is no driver."""
    command = ("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ()
    return tuple(line.strip() for line in done.stdout.splitlines() if line.strip()) if done.returncode == 0 else ()


@functools.cache
def processor_name() -> str:
    """The processor's own name for itself, or its architecture where it has none."""
    info = Path("/proc/cpuinfo")
    if info.exists() and (match := re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)):
        return " ".join(match[1].split())
    return platform.processor() or platform.machine()


def processors() -> list[int]:
    """The numbers of the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))
