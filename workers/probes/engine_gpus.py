"""Which of the host's GPUs an engine uses: never guessed, and stored with the run together with how we know."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from jobs.engines.profiles import MARK
from workers.engine_runtime.process import EngineProcess, NoProcess, marked
from workers.probes.nvml import Gpu, gpus, processes_on

#: The inode of Linux's initial PID namespace is fixed; a container has another one.
_FIRST_PID_NAMESPACE = 0xEFFFFFFC


@dataclass(frozen=True)
class EngineGpus:
    """The GPUs that an engine uses; empty if it uses none or if that is unknown."""

    gpus: tuple[Gpu, ...] = ()
    found_by: str | None = None
    engine: EngineProcess | None = None  # set if its processes were found on them: then the driver's pids are ours


NO_GPUS = EngineGpus()


def engine_gpus(process: EngineProcess | NoProcess) -> EngineGpus:
    """Find the GPUs of an engine; call it once the engine is up.

    By its processes. If the driver numbers processes differently than this container: by CUDA_VISIBLE_DEVICES in the
    engine's environment, or else all GPUs that the container was given.
    """
    present = gpus()
    if not present or isinstance(process, NoProcess):
        return NO_GPUS
    try:
        guard = psutil.Process(process.guard.pid)
        ours, environment = _pids(process, guard), guard.environ()
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

    def __init__(self, found: EngineGpus, idle: Iterable[EngineProcess | NoProcess] = ()) -> None:
        """`idle`: engines of other arms, which are no others either."""
        self._found = found
        self._idle = [engine for engine in idle if isinstance(engine, EngineProcess)]
        self._ours: set[int] = set()  # so that each is examined once

    def count(self) -> int | None:
        """Return None without a GPU, or if the owner of a process is unknown. May be called from any thread."""
        engine, by_gpu = self._found.engine, [processes_on(gpu) for gpu in self._found.gpus]
        known = [pids for pids in by_gpu if pids is not None]
        if engine is None or not known or len(known) < len(by_gpu):
            return None
        unknown = frozenset().union(*known) - self._ours
        self._ours |= {pid for pid in unknown if any(_is_of(one, pid) for one in (engine, *self._idle))}
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

    As in CUDA, everything after the first unknown GPU is ignored.
    """
    found: list[Gpu] = []
    for word in filter(None, (part.strip() for part in listed.split(","))):
        match = [gpu for gpu in present if gpu.uuid.startswith(word) or str(gpu.index) == word]
        if len(match) != 1:
            break
        found += match
    return tuple(found)


def _pids(process: EngineProcess, guard: psutil.Process) -> set[int]:
    """Return its own descendants, and what carries its mark (a container's processes are not our descendants)."""
    marks = marked(process.mark_file.stem)
    return {other.pid for others in (guard.children(recursive=True), marks) for other in others}


def pids_are_the_drivers() -> bool:
    """Return whether process numbers here are those of the driver, as they are outside of containers."""
    namespace = Path("/proc/self/ns/pid")
    return not namespace.exists() or namespace.stat().st_ino == _FIRST_PID_NAMESPACE
