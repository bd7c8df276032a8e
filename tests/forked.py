"""Processes of ours that share the second of one import: `python -m tests.forked SOCKET`, SOCKET a descriptor's number.

Each message on the socket is a JSON object with a module, its arguments, an environment, a folder and a priority, and
has two descriptors: of the file for the output, and of a pipe that gets the number of the process and, at its end, its
status. The process runs the module as `python -m` does. When the socket is closed, all that still run are killed.

Nothing here may start a thread before it forks: what another thread holds at that moment, nobody ever gives back in the
new process. PyArrow and DuckDB start one each while they are imported, so each process imports them, and what needs
them, itself. With them imported here, one of some hundred processes was gone without a word.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

#: None of them reads settings while it is imported, and none is run itself.
_PRELOADED = (
    *("celery.apps.worker", "celery.bin.celery", "kombu.transport.redis", "sqlalchemy.dialects.sqlite.pysqlite"),
    *("aiohttp", "numpy", "psutil", "jobs.access.accounts", "jobs.datasets.catalogue"),
    *("lab.study.plan", "warehouse.bundles.stored_run", "host.process_memory", "host.quiet"),
    *("workers.engine_runtime.readiness", "workers.heartbeat", "workers.probes.occupied", "workers.slots"),
)
MOST_BYTES = 2**17
#: Of each number in the pipe: its reader may come when both are there.
NUMBER_BYTES = 8
_THREADS = Path("/proc/self/task")


def main(requests: socket.socket) -> dict[str, Any] | None:
    """Fork until the socket is closed; in each process that was forked, return what it is to run."""
    for name in _PRELOADED:
        importlib.import_module(name)
    assert not {"pandas", "pyarrow", "duckdb"} & sys.modules.keys()
    assert not _THREADS.exists() or len(list(_THREADS.iterdir())) == 1
    gc.freeze()
    woken, waking = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever closes the socket then
    running: dict[int, int] = {}
    while True:
        readable = select.select([requests.fileno(), woken], [], [])[0]
        if woken in readable:
            os.read(woken, 512)
            _reap(running)
        if requests.fileno() not in readable:
            continue
        message, descriptors, *_ = socket.recv_fds(requests, MOST_BYTES, 2)
        if not message:
            for process in running:
                os.kill(process, signal.SIGKILL)
            return None
        output, status = descriptors
        if (process := os.fork()) == 0:
            for mine in (woken, waking, status, *running.values()):
                os.close(mine)
            requests.close()
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            return dict(json.loads(message))
        os.close(output)
        os.write(status, as_bytes(process))
        running[process] = status


def as_bytes(number: int) -> bytes:
    return number.to_bytes(NUMBER_BYTES, "big", signed=True)


def _reap(running: dict[int, int]) -> None:
    for process in list(running):
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            pipe = running.pop(process)
            os.write(pipe, as_bytes(os.waitstatus_to_exitcode(status)))
            os.close(pipe)


def _become(request: dict[str, Any]) -> None:
    """Run the module as the whole of this process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.setpriority(os.PRIO_PROCESS, 0, request["priority"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv = [request["module"], *request["arguments"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    wanted = main(socket.socket(fileno=int(sys.argv[1])))
    if wanted is not None:
        _become(wanted)
