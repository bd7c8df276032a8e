"""Other programs that compute on the GPUs of this worker: while they run, we measure nothing."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import psutil

from jobs.engines.profiles import MARK
from workers.division import Slot
from workers.probes.nvml import Gpu, gpus, pids_are_the_drivers, processes_on, visible

#: The MPS server holds every GPU that it serves; its clients, which compute, are listed separately.
_MPS = "nvidia-cuda-mps-server"


def used_by_others(slot: Slot | None, marks: Path) -> str | None:
    """Describe the program that computes on a GPU of the slot, or of the whole host; None if none does. `marks`: the
    folder with the marks of this home's engines, which do not count. A GPU whose driver lists no processes counts as
    free.
    """
    ours = {mark.stem for mark in marks.glob("*.json")}
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if slot is not None:
        own: Collection[Gpu] = [gpu for gpu in gpus() if gpu.device in slot.gpus]
    else:
        own = gpus() if listed is None else visible(gpus(), listed)
    for gpu in own:
        for pid in sorted(processes_on(gpu) or ()):
            if (program := _other_program(pid, ours)) is not None:
                return f"GPU {gpu.device} is used by {program}"
    return None


def _other_program(pid: int, ours: Collection[str]) -> str | None:
    """Describe a process unless it belongs to our engines or has just ended."""
    try:
        process = psutil.Process(pid)
        name, user, mark = process.name(), process.username(), _mark_of(process)
    except psutil.NoSuchProcess:
        return None if pids_are_the_drivers() else f"a program outside of this container (process {pid} of the host)"
    return None if name == _MPS or mark in ours else f"{name} (process {pid} of {user})"


def _mark_of(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK)
    except (psutil.AccessDenied, OSError):  # another user's
        return None
