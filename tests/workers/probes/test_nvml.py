"""GPUs through the real pynvml: on this host as it is, and on NVML's C interface without its library."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engines.profiles import MARK
from tests.workers.homes import until
from tests.workers.probes.stand_in_nvml import UUIDS, Install, SlicedGpus, StandInNvml
from workers.engine_runtime import process
from workers.engine_runtime.process import EngineProcess, NoProcess
from workers.probes import nvml
from workers.probes.idle_engines import IdleEngines
from workers.probes.nvml import (
    NO_GPUS,
    GpuReading,
    OtherProcesses,
    combine,
    driver_version,
    engine_gpus,
    gpus,
    read_gpu,
    reason_names,
    visible,
)

SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    """It sleeps, for all tests here."""
    folder = tmp_path_factory.mktemp("engine")
    started = process.start(SLEEPS, {"CUDA_VISIBLE_DEVICES": "1"}, folder / "log", folder / "marks")
    yield started
    started.stop(0.1)


def test_a_host_without_nvml_has_no_gpus_and_that_is_no_error() -> None:
    script = "from workers.probes.nvml import driver_version, gpus; print(gpus(), driver_version())"
    hide = "import ctypes, pynvml\ndef no(name, *_): raise OSError(name)\npynvml.CDLL = no\n"
    done = subprocess.run((sys.executable, "-c", hide + script), capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("() None", "")


def test_figures_of_no_gpu_are_unknown_and_not_zero() -> None:
    assert set(combine([]).values()) == {None}


def test_a_gpu_tells_its_figures_in_our_units(library: Install) -> None:
    library(StandInNvml())
    first, _ = gpus()
    assert (str(first), driver_version()) == ("NVIDIA H200 (GPU-aaaa)", "580.65.06")
    assert read_gpu(first) == GpuReading(
        utilisation_percent=90.0,
        memory_used_bytes=120 << 30,
        power_w=250.0,
        sm_clock_mhz=1980.0,
        memory_clock_mhz=3201.0,
        temperature_c=61.0,
        throttle_reasons=frozenset({"sw_power_cap", "sw_thermal_slowdown"}),
    )


def test_a_figure_that_a_gpu_does_not_support_is_unknown_alone(library: Install) -> None:
    library(StandInNvml())
    reading = read_gpu(gpus()[1])
    assert (reading.power_w, reading.throttle_reasons) == (None, None)
    assert (reading.utilisation_percent, reading.temperature_c) == (70.0, 74.0)


def test_an_older_driver_is_asked_by_the_older_name(library: Install) -> None:
    library(StandInNvml(old_driver=True))
    assert read_gpu(gpus()[0]).throttle_reasons == frozenset({"gpu_idle"})


def test_several_gpus_are_one_row_and_what_one_lacks_is_unknown(library: Install) -> None:
    library(StandInNvml())
    assert combine([read_gpu(gpu) for gpu in gpus()]) == {
        "gpu_utilisation_percent": 80.0,
        "gpu_memory_used_bytes": 240 << 30,
        "gpu_power_w": None,
        "gpu_sm_clock_mhz": 1755.0,
        "gpu_memory_clock_mhz": 3201.0,
        "gpu_temperature_c": 74.0,
        "gpu_throttle_reasons": None,
    }


def test_a_slice_of_a_gpu_has_own_memory_and_its_boards_clocks(library: Install) -> None:
    library(SlicedGpus())
    assert [(gpu.uuid, gpu.index) for gpu in gpus()] == [("GPU-aaaa", 0), ("MIG-1", 1), ("MIG-2", 1)]
    assert read_gpu(gpus()[1]) == GpuReading(
        utilisation_percent=None,
        memory_used_bytes=7 << 30,
        power_w=None,
        sm_clock_mhz=1755.0,
        memory_clock_mhz=3201.0,
        temperature_c=74.0,
        throttle_reasons=None,
    )


def test_the_slice_of_an_engine_is_the_one_its_processes_compute_on(library: Install, engine: EngineProcess) -> None:
    library(SlicedGpus(pids={2: (1,), 3: (child_of(engine).pid,)}))
    of_engine = engine_gpus(engine)
    assert [gpu.uuid for gpu in of_engine.gpus] == ["MIG-2"]
    assert OtherProcesses(of_engine).count() == 0
    assert [gpu.uuid for gpu in visible(gpus(), "MIG-1")] == ["MIG-1"]
    assert visible(gpus(), "1") == ()


@given(st.integers(0, 2**64 - 1))
def test_every_bit_of_a_reason_has_a_name(bits: int) -> None:
    assert len(reason_names(bits)) == bits.bit_count()


def test_the_gpus_of_an_engine_are_those_its_processes_compute_on(library: Install, engine: EngineProcess) -> None:
    library(StandInNvml(pids={0: (1,), 1: (1, child_of(engine).pid)}))
    of_engine = engine_gpus(engine)
    assert ([gpu.uuid for gpu in of_engine.gpus], of_engine.found_by) == ([UUIDS[1]], "the processes of the engine")


def test_others_that_compute_on_the_engines_gpus_are_counted(library: Install, engine: EngineProcess) -> None:
    ours = child_of(engine).pid
    stand_in = library(StandInNvml(pids={0: (1,), 1: (1, ours)}))
    others = OtherProcesses(engine_gpus(engine))
    assert others.count() == 1
    stand_in.pids = {0: (1, 2, 3), 1: (ours, engine.guard.pid)}
    assert others.count() == 0  # what computes on GPUs that the engine does not use takes nothing of it


def test_a_process_that_left_its_parents_is_the_engines_by_its_mark(library: Install, engine: EngineProcess) -> None:
    adopted = subprocess.Popen(SLEEPS, env={MARK: engine.mark_file.stem})
    stand_in = library(StandInNvml(pids={1: (child_of(engine).pid, adopted.pid)}))
    others = OtherProcesses(engine_gpus(engine))
    assert others.count() == 0
    adopted.kill()
    adopted.wait()
    stand_in.pids = {1: (1,)}
    assert others.count() == 1


def test_without_a_gpu_or_whose_processes_they_are_nobody_counts_others(
    library: Install, engine: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(StandInNvml(pids={0: (1,), 1: (2,)}))
    monkeypatch.setattr(nvml, "_FIRST_PID_NAMESPACE", 0)
    assert OtherProcesses(engine_gpus(engine)).count() is None
    assert OtherProcesses(NO_GPUS).count() is None


def test_an_idle_engine_is_no_other_and_its_gpu_share_is_read(
    library: Install, engine: EngineProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "_FIRST_PID_NAMESPACE", Path("/proc/self/ns/pid").stat().st_ino)
    beside = process.start(SLEEPS, {}, tmp_path / "other log", tmp_path / "marks")
    try:
        ours, theirs = child_of(engine).pid, child_of(beside).pid
        library(StandInNvml(pids={0: (ours, theirs)}))
        assert OtherProcesses(engine_gpus(engine)).count() == 1
        assert OtherProcesses(engine_gpus(engine), [beside, NoProcess()]).count() == 0
        watch = IdleEngines({"beside": beside, "elsewhere": NoProcess()})
        watch.begin()
        here, elsewhere = watch.end()
        assert (here.arm, here.gpu_percent) == ("beside", 20.0)
        assert here.cpu_percent is not None
        assert (elsewhere.cpu_percent, elsewhere.gpu_percent) == (None, None)
    finally:
        beside.stop(0.1)


def test_an_idle_engine_that_computes_on_no_gpu_takes_none_of_it(
    library: Install, engine: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml, "_FIRST_PID_NAMESPACE", Path("/proc/self/ns/pid").stat().st_ino)
    child_of(engine)
    library(StandInNvml())
    watch = IdleEngines({"beside": engine})
    watch.begin()
    assert watch.end()[0].gpu_percent == 0.0


def test_an_engine_that_computes_on_no_gpu_has_none(
    library: Install, engine: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(StandInNvml(pids={0: (1,)}))
    monkeypatch.setattr(nvml, "_FIRST_PID_NAMESPACE", Path("/proc/self/ns/pid").stat().st_ino)
    assert engine_gpus(engine) == NO_GPUS


def test_where_the_driver_numbers_processes_otherwise_the_engines_environment_says_which(
    library: Install, engine: EngineProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(StandInNvml())
    monkeypatch.setattr(nvml, "_FIRST_PID_NAMESPACE", 0)
    of_engine = engine_gpus(engine)
    assert ([gpu.uuid for gpu in of_engine.gpus], of_engine.found_by) == ([UUIDS[1]], "CUDA_VISIBLE_DEVICES")


def test_a_server_that_is_not_ours_has_no_gpus_of_this_host(library: Install) -> None:
    library(StandInNvml(pids={0: (1,)}))
    assert engine_gpus(NoProcess()) == NO_GPUS


@pytest.mark.parametrize(
    ("listed", "expected"),
    [("1", [1]), ("1,0", [1, 0]), ("GPU-bbbb", [1]), ("GPU-", []), ("0,7,1", [0]), ("", []), ("-1", [])],
)
def test_visible_devices_are_read_as_cuda_reads_them(library: Install, listed: str, expected: list[int]) -> None:
    library(StandInNvml())
    assert [gpu.index for gpu in visible(gpus(), listed)] == expected


def test_any_other_trouble_with_a_gpu_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def lost() -> float:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    assert (nvml.known(lost), nvml.known(lost)) == (None, None)
    assert [record.getMessage() for record in caplog.records] == [
        "a value of a GPU cannot be read: NVML reports GPU is lost"
    ]


def child_of(engine: EngineProcess) -> psutil.Process:
    """The guard takes a moment to start what it guards."""
    guard = psutil.Process(engine.guard.pid)
    until(guard.children, "the engine runs under its guard")
    return guard.children()[0]
