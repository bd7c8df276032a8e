"""The parent process of every engine: it leaves no process of the engine behind, whatever happens to the worker.

The worker runs this file with the longest length of the engine's log, the ids of the engine's user (empty: the
worker's), the folder of its temporary files, and the engine's command; and holds the other end of our standard input, a
socket. Each line on it is an order: `still` suspends every process of the engine, `go` resumes them, both answered by a
line of their own; a number ends the engine with that many seconds of grace. End of file means that the worker is gone,
even by kill -9: then the engine gets a short grace. Standard library only, so that it starts in milliseconds.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_ORPHAN_GRACE_S = 2.0
_GIVE_UP_S = 10.0  # wait after KILL; some processes cannot be ended even by the kernel
_POLL_EVERY_S = 0.02
_LOG_EVERY_S = 5.0
_SIGNALS = {b"still": signal.SIGSTOP, b"go": signal.SIGCONT}
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(most_log_bytes: int, ids: str, temporary: str, command: list[str]) -> int:
    """Run the engine until it ends or must stop; then end everything it started, and remove its temporary files. Return
    its exit status.

    `ids`: `uid:gid:group,group`, or empty. The guard itself runs as the worker's user, so that no engine can end it.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken = _wake_on_signals()
    engine = subprocess.Popen(  # its exit status is collected by _reap, like its orphans'
        command,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_die_with_guard,  # noqa: PLW1509 - this process has no threads
        **_identity(ids),
    )
    status, grace_s = _until_over(engine.pid, woken, most_log_bytes)
    _end_all(engine.pid, grace_s)
    shutil.rmtree(temporary, ignore_errors=True)
    engine.returncode = 0  # or its destructor would warn: it cannot know that we collected it
    return status


def _identity(ids: str) -> dict[str, Any]:
    if not ids:
        return {}
    uid, gid, groups = ids.split(":")
    return {"user": int(uid), "group": int(gid), "extra_groups": [int(group) for group in groups.split(",")]}


def _wake_on_signals() -> int:
    """Return the reading end of a pipe that becomes readable with every signal; its bytes are the signals' numbers."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    for number in (*_STOP_SIGNALS, signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    return reading


def _until_over(engine: int, woken: int, most_log_bytes: int) -> tuple[int, float]:
    """Wait for the engine's end, an order to stop, or too long a log. Return its exit status so far, and the grace for
    what is left.
    """
    while True:
        if (status := _reap().get(engine)) is not None:
            return status, _ORPHAN_GRACE_S
        if os.fstat(1).st_size > most_log_bytes:
            os.write(1, f"\nLogError: the engine wrote more than {most_log_bytes:,} bytes of log\n".encode())
            return 1, _ORPHAN_GRACE_S
        readable = select.select([0, woken], [], [], _LOG_EVERY_S)[0]
        if not readable:
            continue
        if 0 in readable and (grace_s := _obey(os.read(0, 64))) is not None:
            return 0, grace_s
        if woken in readable and set(os.read(woken, 512)) & set(_STOP_SIGNALS):
            return 0, _ORPHAN_GRACE_S


def _obey(orders: bytes) -> float | None:
    """Suspend or resume the engine by the last order. Return the grace if the order is to end it."""
    last = (orders.split() or [str(_ORPHAN_GRACE_S).encode()])[-1]
    if last not in _SIGNALS:
        return float(last)
    signalled: set[int] = set()
    while not signalled.issuperset(now := _descendants()):  # a process that is not yet suspended may start others
        _signal_all(_SIGNALS[last])
        signalled |= set(now)
    with contextlib.suppress(OSError):  # the worker is gone: the next read returns the end of file
        os.write(0, last + b"\n")
    return None


def _end_all(engine: int, grace_s: float) -> None:
    """Send TERM to every descendant, suspended ones too, and KILL to those that are left after the grace, until none is
    left.

    Processes left by an engine that has already ended do not get the whole grace.
    """
    kill_at_s = time.monotonic() + grace_s
    give_up_at_s = kill_at_s + _GIVE_UP_S
    _signal_all(signal.SIGTERM)
    _signal_all(signal.SIGCONT)  # a suspended process does not handle TERM
    while True:
        if engine in _reap():
            kill_at_s = min(kill_at_s, time.monotonic() + _ORPHAN_GRACE_S)
        if not _descendants() or time.monotonic() > give_up_at_s:
            return
        if time.monotonic() >= kill_at_s:
            _signal_all(signal.SIGKILL)
        time.sleep(_POLL_EVERY_S)


def _signal_all(number: signal.Signals) -> None:
    for pid in _descendants():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _reap() -> dict[int, int]:
    """Collect every ended child, adopted ones too. Return exit statuses by pid, a signal as 128 + its number."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        code = os.waitstatus_to_exitcode(status)
        ended[pid] = code if code >= 0 else 128 - code


def _descendants() -> list[int]:
    """Return every process below this one; on Linux including orphans, which we adopt."""
    children: dict[int, list[int]] = {}
    for pid, parent in _processes():
        children.setdefault(parent, []).append(pid)
    descendants, open_ends = [], [os.getpid()]
    while open_ends:
        below = children.get(open_ends.pop(), [])
        descendants += below
        open_ends += below
    return descendants


def _processes() -> list[tuple[int, int]]:
    """Return (pid, parent) of every process."""
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        table = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        return [(int(pid), int(parent)) for pid, parent in (line.split() for line in table.splitlines())]
    pairs = []
    for folder in proc.iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
            pairs.append((int(folder.name), int(stat.rpartition(")")[2].split()[1])))
    return pairs


def _die_with_guard() -> None:
    """Runs in the engine before its program: if the guard itself is killed, the kernel ends the engine."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))
