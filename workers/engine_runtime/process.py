"""An engine as a process: started under its guard, stopped with everything it started, never left behind.

Every process of an engine carries a mark in its environment. Before an engine is started its mark is written to a file
with the worker it belongs to, so that whatever outlives both worker and guard is found and ended by the next worker.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from jobs.engines.profiles import MARK
from workers.engine_runtime import guard

#: Process titles are written over the environment (vLLM sets them) unless this says not to; the mark must stay.
_KEEP_ENVIRONMENT = {"SPT_NOENV": "1"}
_INSIST_S = 5.0


@dataclass(frozen=True)
class EngineProcess:
    """A started engine. `stop` must be called, also when it ended by itself."""

    guard: subprocess.Popen[bytes]
    mark_file: Path

    @property
    def exit_status(self) -> int | None:
        """None while it runs."""
        return self.guard.poll()

    def stop(self, grace_s: float) -> None:
        """TERM, and KILL after the grace; when this returns no process of the engine is there. Again is no error."""
        orders = self.guard.stdin
        if orders is None or orders.closed:
            return
        with contextlib.suppress(BrokenPipeError), orders:
            orders.write(f"{grace_s}\n".encode())
        try:
            self.guard.wait(grace_s + _INSIST_S)
        except subprocess.TimeoutExpired:
            self.guard.kill()
            self.guard.wait()
        _kill_marked(self.mark_file.stem)
        self.mark_file.unlink(missing_ok=True)


@dataclass(frozen=True)
class NoProcess:
    """In the place of a process where the server is not ours: it never ends for us, and we never end it."""

    @property
    def exit_status(self) -> int | None:
        return None

    def stop(self, grace_s: float) -> None:
        """Nothing of ours is running."""


def start(command: tuple[str, ...], environment: Mapping[str, str], log: Path, marks: Path) -> EngineProcess:
    """Start the engine with its output in `log`, written anew."""
    mark_file = _write_mark(marks)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            (sys.executable, "-I", "-S", guard.__file__, *command),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment, **_KEEP_ENVIRONMENT, MARK: mark_file.stem},
            start_new_session=True,  # what kills the worker's group must not kill the guard
        )
    return EngineProcess(process, mark_file)


def end_leftovers(marks: Path) -> None:
    """End what engines of dead workers left on this host; those of living workers are not touched."""
    for mark_file in marks.glob("*.json"):
        try:
            owner = json.loads(mark_file.read_text(encoding="utf-8"))
        except FileNotFoundError:  # another worker was quicker
            continue
        if owner["host"] == platform.node() and not is_alive(owner["pid"], owner["created_s"]):
            _kill_marked(mark_file.stem)
            mark_file.unlink(missing_ok=True)


def is_alive(pid: int, created_s: float) -> bool:
    """Whether the process of this number is the one created then, and not a later one."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - created_s) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _write_mark(marks: Path) -> Path:
    marks.mkdir(parents=True, exist_ok=True)
    owner = {"host": platform.node(), "pid": os.getpid(), "created_s": psutil.Process().create_time()}
    mark_file = marks / f"{uuid.uuid4().hex}.json"
    writing = mark_file.with_suffix(".writing")
    writing.write_text(json.dumps(owner), encoding="utf-8")
    return writing.rename(mark_file)


def _kill_marked(mark: str) -> None:
    """KILL every process with this mark until there is none."""
    give_up_s = time.monotonic() + _INSIST_S
    while (left := list(marked(mark))) and time.monotonic() < give_up_s:
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=0.5)


def marked(mark: str) -> Iterator[psutil.Process]:
    """The living processes that carry this mark."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # ended meanwhile, or another user's
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process
