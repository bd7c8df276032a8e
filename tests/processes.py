"""Processes of ours, each a module that runs as `python -m` does, with an environment and an output of its own.

They are forked from a process that has imported most of what they need (`tests.forked`), which saves each of them more
than half a second of a processor. The environment's PYTHONPATH is that of these tests.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.forked import MOST_BYTES, NUMBER_BYTES

REPOSITORY = Path(__file__).parents[1]


@dataclass
class Started:
    """With those methods of subprocess.Popen that tests use."""

    pid: int
    _status: int  # a descriptor, from which its exit status can be read once it has ended
    returncode: int | None = None

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status. Raises TimeoutExpired as Popen does."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = _number(self._status)
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended just now
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def start(module: str, *arguments: str, environment: Mapping[str, str], folder: Path, output: Path) -> Started:
    """Its output is appended to the file `output`."""
    wanted = {
        "module": module,
        "arguments": arguments,
        "environment": dict(environment),
        "folder": str(folder),
        "priority": os.getpriority(os.PRIO_PROCESS, 0),
    }
    message = json.dumps(wanted).encode()
    assert len(message) <= MOST_BYTES
    reading, writing = os.pipe()
    with output.open("ab") as file:
        socket.send_fds(_server(os.getpid()), [message], [file.fileno(), writing])
    os.close(writing)
    return Started(_number(reading), reading)


def _number(pipe: int) -> int:
    read = os.read(pipe, NUMBER_BYTES)
    assert read, "the process that forks is gone"
    return int.from_bytes(read, "big", signed=True)


@functools.cache
def _server(_of_process: int) -> socket.socket:
    """Where the server of this process takes messages; it ends with this process."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        command = (sys.executable, "-m", "tests.forked", str(its.fileno()))
        ways = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "pass_fds": (its.fileno(),)}
        # numpy's threads would have to be there before the fork
        variables = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(command, cwd=REPOSITORY, env=variables, **ways)  # type: ignore[call-overload]
    atexit.register(_end, ours, process)
    return ours


def _end(server: socket.socket, process: subprocess.Popen[bytes]) -> None:
    server.close()
    process.wait()
