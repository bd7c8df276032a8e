"""Which of the host's GPUs an engine uses: never guessed, and how it is known is stored with the run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil

from jobs.engines.profiles import MARK
from workers.engine_runtime.process import EngineProcess, NoProcess, marked
from workers.probes.nvml import Gpu, gpus, processes_on

#: The inode of the first namespace of process numbers is fixed in Linux; a container has another one.
_FIRST_PID_NAMESPACE = 0xEFFFFFFC


@dataclass(frozen=True)
class EngineGpus:
    """Those that an engine uses, none where it uses none or nobody can tell."""

    gpus: tuple[Gpu, ...] = ()
    found_by: str | None = None
    engine: EngineProcess | None = None  # whose processes they were found by: then the driver's numbers are ours


NO_GPUS = EngineGpus()


def engine_gpus(process: EngineProcess | NoProcess) -> EngineGpus:
    """Ask once the engine is up.

    By its processes. Where these cannot be told (the driver numbers processes otherwise than a container does), by
    CUDA_VISIBLE_DEVICES in its environment, or else they are all that its container was given.
    """
    there = gpus()
    if not there or isinstance(process, NoProcess):
        return NO_GPUS
    try:
        guard = psutil.Process(process.guard.pid)
        ours, environment = _pids(process, guard), guard.environ()
    except psutil.Error:  # it has just ended
        return NO_GPUS
    if used := tuple(gpu for gpu in there if ours & (processes_on(gpu) or set())):
        return EngineGpus(used, "the processes of the engine", process)
    if _pids_are_the_drivers():
        return NO_GPUS
    if (listed := environment.get("CUDA_VISIBLE_DEVICES")) is not None:
        return EngineGpus(visible(there, listed), "CUDA_VISIBLE_DEVICES")
    return EngineGpus(there, "all of this container's")


class OtherProcesses:
    """Counts what computes on an engine's GPUs and is not the engine's."""

    def __init__(self, found: EngineGpus) -> None:
        self._found = found
        self._ours: set[int] = set()  # so that each is looked at once

    def count(self) -> int | None:
        """None where there is no GPU, or where nobody can tell whose a process is. May be called from any thread."""
        engine, told = self._found.engine, [processes_on(gpu) for gpu in self._found.gpus]
        there = [pids for pids in told if pids is not None]
        if engine is None or not there or len(there) < len(told):
            return None
        unknown = frozenset().union(*there) - self._ours
        self._ours |= {pid for pid in unknown if _is_of(engine, pid)}
        return len(unknown - self._ours)


def _is_of(engine: EngineProcess, pid: int) -> bool:
    """Whether this process carries the engine's mark, or descends from its guard."""
    try:
        process = psutil.Process(pid)
        if engine.guard.pid in {parent.pid for parent in process.parents()}:
            return True
        return process.environ().get(MARK) == engine.mark_file.stem
    except (psutil.Error, OSError):  # it has just ended, or is another user's
        return False


def visible(there: tuple[Gpu, ...], listed: str) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES lists, by number or by the beginning of a UUID; as in CUDA, whatever stands
    behind the first one that is not there does not count.
    """
    found: list[Gpu] = []
    for word in filter(None, (part.strip() for part in listed.split(","))):
        match = [gpu for gpu in there if gpu.uuid.startswith(word) or str(gpu.index) == word]
        if len(match) != 1:
            break
        found += match
    return tuple(found)


def _pids(process: EngineProcess, guard: psutil.Process) -> set[int]:
    """Its own descendants, and what carries its mark (a container's processes are nobody's descendants)."""
    marks = marked(process.mark_file.stem)
    return {other.pid for others in (guard.children(recursive=True), marks) for other in others}


def _pids_are_the_drivers() -> bool:
    """Whether process numbers here are those that the driver uses: outside of containers they are."""
    namespace = Path("/proc/self/ns/pid")
    return not namespace.exists() or namespace.stat().st_ino == _FIRST_PID_NAMESPACE
