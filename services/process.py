"""One supervised process: started in its own group, restarted when it dies, stopped with all its children."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_RESTART_PAUSE_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
#: A process that lived this long was healthy: its next restart is quick again.
_HEALTHY_AFTER_S = 60.0


@dataclass
class Process:
    """A service of `drafthouse up`. Its output goes to `log`."""

    name: str
    command: tuple[str, ...]
    log: Path
    is_ready: Callable[[], bool]
    stop_s: float = 10.0
    restarts: int = 0
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
                start_new_session=True,
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - no threads here
            )
        self._started_s, self._restart_at_s = time.monotonic(), None

    def tend(self) -> None:
        """Start it again if it died: at once the first time, then ever more slowly."""
        if self._child is None or self._child.poll() is None:
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
        """None while it runs."""
        return None if self._child is None else self._child.poll()

    @property
    def pid(self) -> int | None:
        return None if self._child is None else self._child.pid

    def terminate(self) -> None:
        """Ask it to stop; `wait_stopped` insists."""
        if self._child is not None and self._child.poll() is None:
            self._signal(signal.SIGTERM)

    def wait_stopped(self) -> None:
        """Wait until it has stopped, and kill its group when it takes too long."""
        if self._child is None:
            return
        try:
            self._child.wait(self.stop_s)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._child.wait()
        self._child = None

    def last_words(self, lines: int = 12) -> str:
        """The end of its log, for the message that it did not start."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def _signal(self, number: signal.Signals) -> None:
        if self._child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._child.pid, number)


def _die_with_parent() -> None:
    """Runs in the child: a `kill -9` of `drafthouse up` must not leave services that hold its ports."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
