"""GPUs that other programs use: who is another, and what a worker starts meanwhile."""

from __future__ import annotations

import getpass
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from jobs.fleet.worker_registry import list_workers, register_worker
from tests.workers.homes import Home, until
from tests.workers.probes.stand_in_nvml import Install, SlicedGpus, StandInNvml
from workers.division import Slot
from workers.engine_runtime import process
from workers.probes import nvml
from workers.probes.occupied import used_by_others
from workers.worker import Worker, worker_name

SLEEPS = (sys.executable, "-c", "import time; time.sleep(600)")
FIRST, SECOND = Slot(1, (0,), (0,)), Slot(2, (1,), (1,))


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    """Another program, which is no engine of ours."""
    started = subprocess.Popen(SLEEPS)
    yield started
    started.kill()
    started.wait()


@pytest.fixture(autouse=True)
def _pids_of_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_FIRST_PID_NAMESPACE", Path("/proc/self/ns/pid").stat().st_ino)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def words(program: subprocess.Popen[bytes], gpu: object) -> str:
    name = psutil.Process(program.pid).name()
    return f"GPU {gpu} is used by {name} (process {program.pid} of {getpass.getuser()})"


def test_a_gpu_with_another_program_is_in_use_for_its_slot_alone(
    library: Install, program: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library(StandInNvml(pids={1: (program.pid,)}))
    assert [used_by_others(slot, tmp_path) for slot in (FIRST, SECOND)] == [None, words(program, 1)]
    assert used_by_others(None, tmp_path) == words(program, 1)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert used_by_others(None, tmp_path) is None


def test_a_slice_is_in_use_by_what_computes_on_it(
    library: Install, program: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    library(SlicedGpus(pids={3: (program.pid,)}))
    of_slices = [used_by_others(Slot(1, (uuid,), (0,)), tmp_path) for uuid in ("MIG-1", "MIG-2")]
    assert of_slices == [None, words(program, "MIG-2")]


def test_an_engine_of_this_home_is_no_other_program(library: Install, tmp_path: Path) -> None:
    engine = process.start(SLEEPS, {}, tmp_path / "log", tmp_path / "marks")
    try:
        guard = psutil.Process(engine.guard.pid)
        until(guard.children, "the engine runs under its guard")
        library(StandInNvml(pids={0: (guard.children()[0].pid,)}))
        assert used_by_others(FIRST, tmp_path / "marks") is None
        assert used_by_others(FIRST, tmp_path / "of another home") is not None
    finally:
        engine.stop(0.1)


def test_a_program_that_ended_uses_nothing_and_a_hidden_one_does(
    library: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen(("true",))
    ended.wait()
    library(StandInNvml(pids={0: (ended.pid,)}))
    assert used_by_others(FIRST, tmp_path) is None
    monkeypatch.setattr(nvml, "_FIRST_PID_NAMESPACE", 0)
    hidden = f"GPU 0 is used by a program outside of this container (process {ended.pid} of the host)"
    assert used_by_others(FIRST, tmp_path) == hidden


def test_a_worker_waits_until_its_gpus_are_free_and_says_for_whom(
    library: Install, program: subprocess.Popen[bytes], home: Home
) -> None:
    stand_in = library(StandInNvml(pids={0: (program.pid,)}))
    register_worker(home.database, worker_name(), host="host", hardware="H200", gpus=1, is_dead=lambda _name: False)
    job_id, worker = home.submit(arms=[{"name": "plain"}]), Worker(home.settings)
    worker.work()
    (listed,) = list_workers(home.database)
    assert (home.job(job_id).state, listed.waits_for) == ("queued", words(program, 0))
    stand_in.pids = {}
    worker.work()
    (listed,) = list_workers(home.database)
    assert (home.job(job_id).state, listed.waits_for) == ("done", None)


def test_a_spread_study_is_given_back_when_another_program_has_come(
    library: Install, program: subprocess.Popen[bytes], home: Home
) -> None:
    stand_in = library(StandInNvml())
    job, worker = home.job(home.submit(spread=True, repeats=2)), Worker(home.settings)
    assert worker._needed_for(job) is None
    stand_in.pids = {0: (program.pid,)}
    assert worker._needed_for(job) == f"waits: {words(program, 0)}"


def test_a_worker_that_shares_its_gpus_starts_beside_other_programs(
    library: Install, program: subprocess.Popen[bytes], home: Home
) -> None:
    library(StandInNvml(pids={0: (program.pid,)}))
    job_id = home.submit(arms=[{"name": "plain"}])
    Worker(home.settings.model_copy(update={"share_gpus": True})).work()
    assert home.job(job_id).state == "done"
