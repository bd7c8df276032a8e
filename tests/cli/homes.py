"""A `drafthouse up` of its own for a test: own home, own port, stopped at the end."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import psutil
import pytest

from cli import app
from host.ports import free_port
from tests.migrated import copy_migrated
from tests.processes import is_gone

REPOSITORY = Path(__file__).parent.parent.parent
DRAFTHOUSE = Path(sys.executable).parent / "drafthouse"


@dataclass(frozen=True)
class Home:
    """Where a Drafthouse lives during a test."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        ours = {"DRAFTHOUSE_HOME": str(self.folder), "DRAFTHOUSE_WEB_PORT": str(self.port)}
        patient = {"DRAFTHOUSE_SQL_TIMEOUT_S": "600"}  # a question starts a process
        return {**patient, **os.environ, **ours, "HOME_OF_TEST": str(self.folder), "PYTHONUNBUFFERED": "1"}

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One `drafthouse` command as `run` runs it, but within this process: its imports take seconds."""
        out, err = io.StringIO(), io.StringIO()
        with (
            mock.patch.dict(os.environ, self.environment),
            mock.patch.object(sys, "argv", ["drafthouse", *arguments]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as end,
        ):
            app.main()
        return subprocess.CompletedProcess(arguments, int(end.value.code or 0), out.getvalue(), err.getvalue())

    def refusal(self, *arguments: str) -> str:
        """The sentence of a command that has to refuse, and prints nothing else."""
        answer = self.ask(*arguments)
        assert (answer.returncode, answer.stdout) == (2, "")
        return answer.stderr

    def run(self, *arguments: str, timeout_s: float = 600) -> subprocess.CompletedProcess[str]:
        """One `drafthouse` command, to its end."""
        return subprocess.run(
            (DRAFTHOUSE, *arguments),
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )


def new_home(folder: Path) -> Home:
    return Home(folder, free_port())


def home_with_databases(folder: Path) -> Home:
    """A new home in this folder that was migrated, as the first command does."""
    home = new_home(folder / "home")
    copy_migrated(home.folder)
    return home


@contextlib.contextmanager
def up(home: Home) -> Iterator[subprocess.Popen[str]]:
    """`drafthouse up`, ready; interrupted as by Ctrl-C at the end, which has to end everything that it started."""
    process = subprocess.Popen(
        (DRAFTHOUSE, "up"),
        cwd=REPOSITORY,
        env=home.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert "Drafthouse is up" in line, line + process.stdout.read()
        yield process
    finally:
        started = services_of(process) if process.poll() is None else []
        process.send_signal(signal.SIGINT)
        process.wait(600)
        process.stdout.close()
    assert process.returncode == 0
    assert [it for it in started if not is_gone(it)] == []


def services_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """`drafthouse up` itself and all it has started."""
    itself = psutil.Process(process.pid)
    return [itself, *itself.children(recursive=True)]
