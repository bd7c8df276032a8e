"""A supervised process is kept alive, and stopped with everything it started."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import psutil

from services.process import Process
from tests.processes import is_gone
from tests.workers.homes import until

PARENT_AND_CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
time.sleep(600)
"""

SUPERVISOR = """
import sys, time
from pathlib import Path
from services.process import Process
it = Process("inner", (sys.executable, "-c", "import time; time.sleep(600)"), Path({log!r}), lambda: True)
it.start()
print(it.pid)
time.sleep(600)
"""


def process(tmp_path: Path, code: str, stop_s: float = 600.0) -> Process:
    return Process("it", (sys.executable, "-u", "-c", code), tmp_path / "it.log", lambda: True, stop_s=stop_s)


def stopped(it: Process) -> None:
    it.terminate()
    it.wait_stopped()


def test_a_worker_that_ended_by_itself_is_not_started_again(tmp_path: Path) -> None:
    it = Process("it", (sys.executable, "-c", ""), tmp_path / "it.log", lambda: True, may_end=True)
    it.start()
    until(lambda: it.has_ended, "it ends")
    it.supervise()
    assert (it.restarts, it.exit_status) == (0, 0)


def test_stopping_a_service_stops_what_it_started(tmp_path: Path) -> None:
    it = process(tmp_path, PARENT_AND_CHILD)
    it.start()
    until(it.log_tail, "the child is started")
    child = psutil.Process(int(it.log_tail()))
    stopped(it)
    until(lambda: is_gone(child), "the child ends")


def test_a_service_that_ignores_term_is_killed(tmp_path: Path) -> None:
    it = process(
        tmp_path,
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(600)",
        stop_s=0.2,
    )
    it.start()
    until(lambda: it.log_tail() == "deaf", "it is deaf")
    pid = it.pid
    assert pid is not None
    stopped(it)
    assert not psutil.pid_exists(pid)


def test_a_service_ends_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    supervisor = process(tmp_path, SUPERVISOR.format(log=str(tmp_path / "inner.log")))
    supervisor.start()
    until(supervisor.log_tail, "the service is started")
    inner = psutil.Process(int(supervisor.log_tail()))
    assert supervisor.pid is not None
    psutil.Process(supervisor.pid).send_signal(signal.SIGKILL)
    until(lambda: is_gone(inner), "the service ends")
    stopped(supervisor)
