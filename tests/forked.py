"""Processes of ours, forked from one that has imported what they need: a start of their own takes a second of a
processor. Each runs a module as `python -m` does, with an environment and an output of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

#: Imported once: none of them reads settings while it is imported, and none is run itself.
_PRELOADED = (
    "pytest",
    "celery.apps.worker",
    "celery.bin.celery",
    "kombu.transport.redis",
    "pandas",
    "warehouse.ingest.job_verdicts",
    "workers.worker",
)


@dataclass(frozen=True)
class Forked:
    """With the methods of subprocess.Popen that tests use."""

    process: ForkServerProcess

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self.process.join(timeout)
        assert self.process.exitcode is not None, f"process {self.pid} runs on"
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.process.kill()

    def terminate(self) -> None:
        self.process.terminate()


def start(module: str, *arguments: str, environment: Mapping[str, str], folder: Path, output: Path) -> Forked:
    """Its output is appended to the file `output`."""
    output.touch()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(_PRELOADED))
    process = context.Process(target=_run, args=(module, arguments, dict(environment), str(folder), str(output)))
    process.start()
    return Forked(process)


def _run(module: str, arguments: Sequence[str], environment: Mapping[str, str], folder: str, output: str) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
