"""Starting and stopping an engine's process: whatever it does, nothing of it is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.workers.homes import REPOSITORY, until
from workers.engine_runtime import guard, process
from workers.engine_runtime.process import EngineProcess, end_leftovers, marked
from workers.engine_runtime.start_failure import error_excerpt

#: A family: a child in a session of its own, with a child of its own; all deaf to TERM. Says when all are there.
FAMILY = """
import signal, subprocess, sys, time
depth = int(sys.argv[1])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if depth:
    subprocess.Popen((sys.executable, sys.argv[2], str(depth - 1), sys.argv[2]), start_new_session=True)
else:
    print("all there", flush=True)
time.sleep(600)
"""
#: Starts an engine and waits to be killed.
WORKER = """
import os, sys, time
from pathlib import Path
from workers.engine_runtime import process
folder = Path(sys.argv[1])
engine = process.start(tuple(sys.argv[2:]), os.environ, folder / "engine.log", folder / "marks")
if (folder / "suspend").exists():
    while "all there" not in (folder / "engine.log").read_text():
        time.sleep(0.02)
    engine.suspend()
    (folder / "suspended").touch()
time.sleep(600)
"""


@pytest.fixture
def family(tmp_path: Path) -> tuple[str, ...]:
    script = tmp_path / "family.py"
    script.write_text(FAMILY)
    return (sys.executable, str(script), "2", str(script))


@pytest.fixture
def engine(tmp_path: Path, family: tuple[str, ...]) -> Iterator[EngineProcess]:
    it = started(tmp_path, *family)
    until(lambda: "all there" in (tmp_path / "engine.log").read_text(), "the family")
    yield it
    it.stop(0.0)


def started(folder: Path, *command: str) -> EngineProcess:
    return process.start(command, os.environ, folder / "engine.log", folder / "marks")


def members(marks: Path) -> list[psutil.Process]:
    return [member for file in marks.glob("*.json") for member in marked(file.stem)]


def test_stop_ends_the_whole_family_and_forgets_it(engine: EngineProcess, tmp_path: Path) -> None:
    family = members(tmp_path / "marks")
    assert len(family) == 4  # three generations and their guard
    assert engine.exit_status is None
    engine.stop(grace_s=0.1)
    assert not any(member.is_running() for member in family)
    assert list((tmp_path / "marks").iterdir()) == []


def test_a_suspended_engine_gets_no_processor_until_it_is_resumed(tmp_path: Path) -> None:
    spins = "import subprocess, sys; subprocess.Popen((sys.executable, '-c', 'while True: pass')); exec('while 1: 0')"
    engine = started(tmp_path, sys.executable, "-c", spins)
    until(lambda: len(members(tmp_path / "marks")) == 3, "both processes and their guard")
    both = psutil.Process(engine.guard.pid).children(recursive=True)
    engine.suspend()
    until(lambda: all(each.status() == psutil.STATUS_STOPPED for each in both), "both stand still")
    used_s = [each.cpu_times().user for each in both]
    engine.suspend()  # again is no error
    engine.resume()
    until(lambda: all(each.cpu_times().user > then for each, then in zip(both, used_s, strict=True)), "both go on")
    engine.stop(0.0)


def test_a_suspended_engine_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    obeys = "import signal, time; signal.signal(15, lambda *_: print('asked', flush=True) or exit(0)); "
    engine = started(tmp_path, sys.executable, "-c", obeys + "print('up', flush=True); time.sleep(600)")
    until(lambda: "up" in (tmp_path / "engine.log").read_text(), "the engine")
    engine.suspend()
    engine.stop(grace_s=600)
    assert "asked" in (tmp_path / "engine.log").read_text()


def test_suspending_an_engine_that_has_ended_is_no_error(tmp_path: Path) -> None:
    engine = started(tmp_path, sys.executable, "-c", "")
    until(lambda: engine.exit_status is not None, "the engine's end")
    engine.suspend()
    engine.resume()
    engine.stop(0.0)
    engine.suspend()


def test_an_engine_with_too_long_a_log_is_stopped_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "__file__", quick_guard(tmp_path))
    loud = "import sys, time; print('x' * 100_000, flush=True); time.sleep(600)"
    engine = process.start(
        (sys.executable, "-c", loud), os.environ, tmp_path / "engine.log", tmp_path / "marks", most_log_bytes=50_000
    )
    until(lambda: engine.exit_status is not None, "the engine's end")
    assert engine.exit_status == 1
    assert error_excerpt(tmp_path / "engine.log") == "LogError: the engine wrote more than 50,000 bytes of log"
    engine.stop(0.0)


def quick_guard(folder: Path) -> str:
    """The guard, looking at the log more often."""
    text = Path(guard.__file__).read_text().replace("_LOG_EVERY_S = 5.0", "_LOG_EVERY_S = 0.05")
    assert "_LOG_EVERY_S = 0.05" in text
    quick = folder / "guard.py"
    quick.write_text(text)
    return str(quick)


def test_an_engine_that_ended_takes_its_children_and_its_status_is_known(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.Popen(('sleep', '600'), start_new_session=True); sys.exit(7)"
    engine = started(tmp_path, sys.executable, "-c", code)
    until(lambda: engine.exit_status is not None, "the engine's end")
    assert engine.exit_status == 7
    assert members(tmp_path / "marks") == []
    engine.stop(0.0)


def test_an_engine_killed_by_a_signal_says_which(tmp_path: Path) -> None:
    engine = started(tmp_path, sys.executable, "-c", "import os; os.kill(os.getpid(), 9)")
    until(lambda: engine.exit_status is not None, "the engine's end")
    assert engine.exit_status == 128 + signal.SIGKILL
    engine.stop(0.0)


def test_a_missing_program_ends_at_once_and_its_log_says_so(tmp_path: Path) -> None:
    engine = started(tmp_path, str(tmp_path / "nothing"))
    until(lambda: engine.exit_status is not None, "the guard's end")
    assert engine.exit_status != 0
    assert "No such file" in (tmp_path / "engine.log").read_text()
    engine.stop(0.0)


def worker(folder: Path, family: tuple[str, ...]) -> subprocess.Popen[bytes]:
    """A process that has started a family."""
    it = subprocess.Popen((sys.executable, "-c", WORKER, str(folder), *family), cwd=REPOSITORY)
    log = folder / "engine.log"
    until(lambda: log.exists() and "all there" in log.read_text(), "the family")
    return it


@pytest.mark.parametrize("suspended", [False, True])
def test_kill_9_of_the_worker_ends_the_family(tmp_path: Path, family: tuple[str, ...], *, suspended: bool) -> None:
    if suspended:
        (tmp_path / "suspend").touch()
    owner = worker(tmp_path, family)
    until(lambda: not suspended or (tmp_path / "suspended").exists(), "it is suspended")
    temporary = [Path(json.loads(mark.read_text())["temporary"]) for mark in (tmp_path / "marks").iterdir()]
    assert all(folder.is_dir() for folder in temporary)
    owner.kill()
    owner.wait()
    until(lambda: not members(tmp_path / "marks"), "the family is gone", within_s=600)
    assert not any(folder.exists() for folder in temporary), "nor are its temporary files"


def test_what_outlives_worker_and_guard_is_ended_by_the_next_worker(tmp_path: Path, family: tuple[str, ...]) -> None:
    owner = worker(tmp_path, family)
    guard = psutil.Process(owner.pid).children()[0]
    owner.kill()
    guard.kill()
    owner.wait()
    until(lambda: len(members(tmp_path / "marks")) == 2, "the engine itself dies with its guard, the others live")
    temporary = [Path(json.loads(mark.read_text())["temporary"]) for mark in (tmp_path / "marks").iterdir()]
    assert [folder.is_dir() for folder in temporary] == [True]
    end_leftovers(tmp_path / "marks")
    assert members(tmp_path / "marks") == []
    assert list((tmp_path / "marks").iterdir()) == []
    assert not any(folder.exists() for folder in temporary)


def test_the_engines_of_a_living_worker_are_left_alone(engine: EngineProcess, tmp_path: Path) -> None:
    end_leftovers(tmp_path / "marks")
    assert engine.exit_status is None
    assert len(members(tmp_path / "marks")) == 4
