"""One supervised process: started in its own process group, restarted if it dies, stopped with its children."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_RESTART_PAUSE_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
#: After this uptime a process counts as healthy, and its next restart has no extra delay.
_HEALTHY_AFTER_S = 60.0


@dataclass
class Process:
    """A service of `drafthouse up`. `log` receives its output."""

    name: str
    command: tuple[str, ...]
    log: Path
    is_ready: Callable[[], bool]
    stop_s: float = 10.0
    environment: Mapping[str, str] = field(default_factory=dict)  # over ours
    stop_signal: signal.Signals = signal.SIGTERM
    may_end: bool = False  # by itself, with exit status 0: it is not started again then
    restarts: int = 0
    _drains: bool = field(default=False, init=False)
    _child: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _started_s: float = field(default=0.0, init=False)
    _restart_at_s: float | None = field(default=None, init=False)

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                start_new_session=True,
                preexec_fn=partial(_die_with_parent, self.stop_signal) if sys.platform == "linux" else None,  # noqa: PLW1509 - no threads here
            )
        self._started_s, self._restart_at_s = time.monotonic(), None

    def supervise(self) -> None:
        """Restart the process if it died, with increasing pauses. Call this a few times a second."""
        if self._child is None or self._child.poll() is None or self.has_ended:
            return
        now_s = time.monotonic()
        if self._restart_at_s is None:
            if now_s - self._started_s > _HEALTHY_AFTER_S:
                self.restarts = 0
            self._restart_at_s = now_s + _RESTART_PAUSE_S[min(self.restarts, len(_RESTART_PAUSE_S) - 1)]
        elif now_s >= self._restart_at_s:
            self.restarts += 1
            self.start()

    @property
    def exit_status(self) -> int | None:
        """The exit status, or None while the process runs."""
        return None if self._child is None else self._child.poll()

    @property
    def has_ended(self) -> bool:
        """Whether the process has ended by itself, as it may, or when its work allowed."""
        return self.exit_status is not None and (self._drains or (self.may_end and self.exit_status == 0))

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def terminate(self) -> None:
        """Send its signal to the process group. `wait_stopped` kills it if that is not enough."""
        if self._child is not None and self._child.poll() is None:
            self._signal(self.stop_signal)

    def drain(self) -> None:
        """Send TERM to the process alone, which ends when its work allows, and is not started again."""
        self._drains = True
        if self._child is not None:
            self._child.terminate()

    def wait_stopped(self) -> None:
        """Wait `stop_s` for the process to stop, then kill its group."""
        if self._child is None:
            return
        try:
            self._child.wait(self.stop_s)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._child.wait()
        self._child = None

    def log_tail(self, lines: int = 12) -> str:
        """Return the end of the log, for the error that the process did not start."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)


def _die_with_parent(stop_signal: signal.Signals) -> None:
    """Make the child, which runs this, die with its parent: `kill -9` of `drafthouse up` must leave no service on its
    ports.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, stop_signal)
