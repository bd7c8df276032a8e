"""What other programs take of the processors is told from what is ours, and is unknown where that is."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.workers.homes import until
from tests.workers.probes.burner import burner
from workers.engine_runtime import process
from workers.engine_runtime.process import EngineProcess, NoProcess
from workers.probes import machine
from workers.probes.machine import MachineLoad

_BUSY = (sys.executable, "-c", "while True: pass")
_WORK_S = 0.2


@pytest.fixture
def busy_engine(tmp_path: Path) -> Iterator[EngineProcess]:
    engine = process.start(_BUSY, {}, tmp_path / "engine.log", tmp_path / "marks")
    yield engine
    engine.stop(1)


def read_over(load: MachineLoad, seconds: float = 2.0) -> dict[str, Any]:
    load.read()
    time.sleep(seconds)
    return load.read()


def taken_percent(pid: int, before_s: float, seconds: float) -> float:
    times = psutil.Process(pid).cpu_times()
    return 100 * (times.user + times.system - before_s) / seconds / (psutil.cpu_count() or 1)


def test_what_another_program_takes_is_counted() -> None:
    """At least what it took itself: other tests may run beside it."""
    with burner() as pid:
        load, times, began_s = MachineLoad(()), psutil.Process(pid).cpu_times(), time.perf_counter()
        others = read_over(load, 3.0)["other_cpu_percent"]
        took = taken_percent(pid, times.user + times.system, time.perf_counter() - began_s)
    assert 0.8 * took <= others <= 100


def test_what_an_engine_of_ours_takes_is_not_counted(busy_engine: EngineProcess) -> None:
    """What the engine took is not left for others."""
    guard = psutil.Process(busy_engine.guard.pid)
    until(guard.children, "the guard starts the engine")
    (own,) = guard.children()
    load, times, began_s = MachineLoad((busy_engine,)), own.cpu_times(), time.perf_counter()
    ours, read = load._ours, read_over(load, 3.0)
    took = taken_percent(own.pid, times.user + times.system, time.perf_counter() - began_s)
    assert ours is not None
    assert {own.pid, busy_engine.guard.pid, psutil.Process().pid} <= {each.pid for each in ours}
    assert read["other_cpu_percent"] <= 100 - 0.8 * took


def test_beside_a_server_that_is_not_ours_it_is_unknown() -> None:
    read = read_over(MachineLoad((NoProcess(),)), 0.1)
    assert read["other_cpu_percent"] is None
    assert read["run_queue"] is None or read["run_queue"] >= 0


def test_a_program_that_ends_moves_its_time_to_its_parent_and_is_never_another() -> None:
    """A child that has worked is waited for between two readings."""
    child = subprocess.Popen(_BUSY)
    load = MachineLoad(())
    until(lambda: psutil.Process(child.pid).cpu_times().user > _WORK_S, "the child has worked")
    load.read()
    child.kill()
    child.wait()
    assert machine._cpu_s([psutil.Process()]) >= _WORK_S
    time.sleep(0.2)  # the kernel counts in ticks of 10 ms
    assert 0 <= load.read()["other_cpu_percent"] <= 100


def test_files_that_a_container_hides_leave_their_figures_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("_PROC", "_CPUS", "_CGROUPS"):
        monkeypatch.setattr(machine, name, tmp_path)
    read = read_over(MachineLoad(()), 0.1)
    hidden = ("run_queue", "memory_pressure_percent", "cpu_mhz", "cpu_throttled_percent")
    assert {name: read[name] for name in hidden} == dict.fromkeys(hidden)


def test_a_quota_clock_and_pressure_are_read_as_the_kernel_writes_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Files as Linux 6.18 writes them; the quota is that of a folder above the worker's own."""
    files = {
        "proc/loadavg": "10.28 9.76 8.94 7/482 17194\n",
        "proc/pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\nfull avg10=0.00 total=1\n",
        "proc/self/cgroup": "0::/pod/worker\n",
        "cgroup/pod/cpu.max": "200000 100000\n",
        "cgroup/pod/worker/cpu.max": "max 100000\n",
        "cgroup/pod/cpu.stat": "usage_usec 5\nnr_periods 100\nnr_throttled 10\nthrottled_usec 7\n",
    } | {f"cpus/cpu{number}/cpufreq/scaling_cur_freq": "2500000\n" for number in range(psutil.cpu_count() or 1)}

    def write(changed: dict[str, str]) -> None:
        for name, text in changed.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    write(files)
    for name, folder in (("_PROC", "proc"), ("_CPUS", "cpus"), ("_CGROUPS", "cgroup")):
        monkeypatch.setattr(machine, name, tmp_path / folder)
    load = MachineLoad(())
    write({"cgroup/pod/cpu.stat": "nr_periods 110\nnr_throttled 14\n"})
    write({"proc/pressure/memory": "some avg10=0.00 total=9000000000\n"})
    read = load.read()
    assert (read["run_queue"], read["cpu_mhz"], read["cpu_throttled_percent"]) == (6, 2500.0, 40.0)
    assert read["memory_pressure_percent"] == 100.0
