"""The load of the processors: what programs that are not ours take of them, who waits, and what holds them back.

A container may hide each of these files; then that figure is unknown.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from workers.engine_runtime.process import EngineProcess, NoProcess, marked

_PROC, _CPUS, _CGROUPS = Path("/proc"), Path("/sys/devices/system/cpu"), Path("/sys/fs/cgroup")
#: Clients of container engines: the engine itself is then no descendant of theirs.
_CONTAINER_CLIENTS = frozenset({"docker", "podman", "nerdctl"})
#: The clock of at most this many processors is read, since the kernel asks each of them.
_MOST_CLOCKS = 8


class Reading(NamedTuple):
    """The sums of the kernel's counters at one point in time; None if it does not show one."""

    at_s: float
    programs_s: float | None  # of all programs on our processors, and of other guests of the same hypervisor
    all_s: float | None
    ours_s: float | None
    pressure_s: float | None
    throttled: tuple[int, int] | None  # periods of the quota, and those in which it held processors back


class MachineLoad:
    """Computes the load since its last reading, or since its creation."""

    def __init__(self, engines: Collection[EngineProcess | NoProcess]) -> None:
        """`engines`: all of this worker, which are not others. Finding their processes takes some milliseconds."""
        self._ours, self._processors = our_processes(engines), _our_processors()
        self._clocks = _clocks(self._processors)
        self._quota = _quota_file()
        self._before = self._read()

    def read(self) -> dict[str, Any]:
        """Return fields of a TelemetrySample."""
        before, now = self._before, self._read()
        self._before = now
        passed_s = now.at_s - before.at_s
        pressed_s = _grown(before.pressure_s, now.pressure_s)
        return {
            "other_cpu_percent": _others_percent(before, now),
            "run_queue": _run_queue(),
            "memory_pressure_percent": None if pressed_s is None else min(100.0, 100 * pressed_s / passed_s),
            "cpu_mhz": _mean_mhz(self._clocks),
            "cpu_throttled_percent": _held_back_percent(before.throttled, now.throttled),
        }

    def _read(self) -> Reading:
        programs_s, all_s = _spent_s(self._processors) or (None, None)
        ours_s = None if self._ours is None else _cpu_s(self._ours)
        return Reading(time.perf_counter(), programs_s, all_s, ours_s, _memory_pressure_s(), _throttled(self._quota))


def our_processes(engines: Collection[EngineProcess | NoProcess]) -> list[psutil.Process] | None:
    """Return this worker's processes and its engines', or None if a server may run here whose processes are unknown.

    Engines descend from the worker, except those in containers, which carry their mark at most.
    """
    worker, started = psutil.Process(), [engine for engine in engines if isinstance(engine, EngineProcess)]
    if len(started) < len(engines):
        return None
    descendants = worker.children(recursive=True)
    if not any(map(_is_client, descendants)):
        return [worker, *descendants]
    pids = {process.pid for process in descendants}
    contained = [other for engine in started for other in marked(engine.mark_file.stem) if other.pid not in pids]
    return [worker, *descendants, *contained] if contained else None


def _is_client(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.name() in _CONTAINER_CLIENTS
    return False


def _our_processors() -> frozenset[int] | None:
    """Return the processors that this run may use; None for all."""
    process = psutil.Process()
    if not hasattr(process, "cpu_affinity"):  # macOS
        return None
    allowed = frozenset(process.cpu_affinity())
    return None if len(allowed) == psutil.cpu_count() else allowed


def _spent_s(processors: Collection[int] | None) -> tuple[float, float] | None:
    """Return what programs took of these processors, and all their time. Time of interrupts is no program's.

    A stolen second went to another guest of the hypervisor, which is another program too.
    """
    each = psutil.cpu_times(percpu=True)
    if processors is not None:
        if max(processors) >= len(each):  # some are offline, and the list has no numbers
            return None
        each = [each[number] for number in sorted(processors)]
    names = ("user", "nice", "system", "steal")
    programs_s = sum(getattr(times, name, 0.0) for times in each for name in names)
    all_s = sum(sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0) for times in each)
    return programs_s, all_s


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    """Return the processor time of processes and of their children that ended. One that ends moves to its parent's."""
    total_s = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total_s += times.user + times.system + times.children_user + times.children_system
    return total_s


def _others_percent(before: Reading, now: Reading) -> float | None:
    taken_s, all_s = _grown(before.programs_s, now.programs_s), _grown(before.all_s, now.all_s)
    ours_s = _grown(before.ours_s, now.ours_s)
    if taken_s is None or ours_s is None or not all_s:
        return None
    # the kernel counts in ticks of 10 ms, so a difference may be a little below 0
    return min(100.0, max(0.0, 100 * (taken_s - ours_s) / all_s))


def _grown(before: float | None, now: float | None) -> float | None:
    return None if before is None or now is None else now - before


def _run_queue() -> int | None:
    """Return how many threads of the machine run or wait for a processor, without the one that reads."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return max(0, int((_PROC / "loadavg").read_text().split()[3].partition("/")[0]) - 1)
    return None


def _memory_pressure_s() -> float | None:
    """Return the seconds so far in which some program waited for memory."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int((_PROC / "pressure" / "memory").read_text().partition("total=")[2].split()[0]) / 1e6
    return None


def _clocks(processors: Collection[int] | None) -> tuple[Path, ...]:
    numbers = sorted(processors) if processors is not None else range(psutil.cpu_count() or 0)
    chosen = numbers[:: 1 + len(numbers) // (_MOST_CLOCKS + 1)]
    return tuple(_CPUS / f"cpu{number}" / "cpufreq" / "scaling_cur_freq" for number in chosen)


def _mean_mhz(clocks: Sequence[Path]) -> float | None:
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        return sum(int(clock.read_text()) for clock in clocks) / len(clocks) / 1000
    return None


def _quota_file() -> Path | None:
    """Return the file with the counters of this worker's quota (cgroup v2); None without a quota."""
    with contextlib.suppress(OSError):
        for line in (_PROC / "self" / "cgroup").read_text().splitlines():
            if line.startswith("0::"):
                own = _CGROUPS / line.removeprefix("0::").lstrip("/")
                return next((folder / "cpu.stat" for folder in _with_parents(own) if _has_quota(folder)), None)
    return None


def _with_parents(folder: Path) -> Iterator[Path]:
    yield folder
    yield from (above for above in folder.parents if above.is_relative_to(_CGROUPS))


def _has_quota(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return not (folder / "cpu.max").read_text().startswith("max")
    return False


def _throttled(quota: Path | None) -> tuple[int, int] | None:
    with contextlib.suppress(OSError, ValueError, KeyError):
        if quota is not None:
            counters = dict(line.split(maxsplit=1) for line in quota.read_text().splitlines())
            return int(counters["nr_periods"]), int(counters["nr_throttled"])
    return None


def _held_back_percent(before: tuple[int, int] | None, now: tuple[int, int] | None) -> float | None:
    if before is None or now is None or now[0] <= before[0]:
        return None
    return min(100.0, max(0.0, 100 * (now[1] - before[1]) / (now[0] - before[0])))
