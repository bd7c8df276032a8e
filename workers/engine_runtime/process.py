"""An engine as a process: started under its guard, and stopped together with everything it started.

Every process of an engine carries a mark in its environment. Before an engine starts, its mark and its worker are
written to a file, so that the next worker ends whatever outlives both worker and guard.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from host.files import write_whole
from jobs.engines.profiles import MARK
from workers.engine_runtime import guard
from workers.engine_runtime.engine_user import EngineUser

logger = logging.getLogger(__name__)
#: vLLM sets process titles, which overwrite the environment and so the mark, unless this variable forbids it.
_KEEP_ENVIRONMENT = {"SPT_NOENV": "1"}
_INSIST_S = 5.0
#: Beside an engine's mark: nobody needs it now.
_KEPT = ".kept"
#: An engine that has written more is stopped: it would fill the disk.
MOST_LOG_BYTES = 4 * 2**30
#: Bytes of the folder of temporary folders: a socket's path has 107 at most, of which ours take 28 and an engine's 42.
_LONGEST_TEMPORARY = 36


@dataclass(frozen=True)
class EngineProcess:
    """A started engine. `stop` must be called even if it ended by itself."""

    guard: subprocess.Popen[bytes]
    orders: socket.socket  # to the guard, and its answers
    mark_file: Path
    temporary: Path

    @property
    def exit_status(self) -> int | None:
        """The engine's exit status; None while it runs."""
        return self.guard.poll()

    def stop(self, grace_s: float) -> None:
        """Send TERM, and KILL after the grace; on return no process of the engine is left. Stopping twice is not an
        error.
        """
        if self.orders.fileno() < 0:
            return
        with contextlib.suppress(OSError), self.orders:
            self.orders.sendall(f"{grace_s}\n".encode())
        try:
            self.guard.wait(grace_s + _INSIST_S)
        except subprocess.TimeoutExpired:
            self.guard.kill()
            self.guard.wait()
        _kill_marked(self.mark_file.stem)
        _forget(self.mark_file, self.temporary)

    def suspend(self) -> None:
        """Suspend every process of the engine until `resume`. A process that has ended already is not an error.

        An idle engine still polls for about a second after its last message, which slows the engine that is measured.
        Whatever ends the worker ends a suspended engine too.
        """
        self._order(b"still\n")

    def resume(self) -> None:
        """Resume a suspended engine."""
        self._order(b"go\n")

    def let_others_end(self) -> None:
        """Say to other workers of this host that they may end the engine if they need its memory."""
        self.mark_file.with_suffix(_KEPT).touch()

    def is_taken_back(self) -> bool:
        """Forbid that again. Return False if another worker was quicker, and ends the engine."""
        return _is_removed(self.mark_file.with_suffix(_KEPT))

    def _order(self, order: bytes) -> None:
        with contextlib.suppress(OSError):
            self.orders.sendall(order)
            while (answer := self.orders.recv(64)) and answer != order:
                continue


@dataclass(frozen=True)
class NoProcess:
    """Stands in for the process of a foreign server, which we neither start, watch nor end."""

    @property
    def exit_status(self) -> int | None:
        return None

    def stop(self, grace_s: float) -> None:
        """Do nothing: we do not stop a foreign server."""

    def suspend(self) -> None:
        """Do nothing: we do not suspend a foreign server."""

    def resume(self) -> None:
        """Do nothing: the server was not suspended."""


def start(
    command: tuple[str, ...],
    environment: Mapping[str, str],
    log: Path,
    marks: Path,
    *,
    user: EngineUser | None = None,
    most_log_bytes: int = MOST_LOG_BYTES,
) -> EngineProcess:
    """Start the engine as this user (by default the worker's), with its output in `log`, which is overwritten. Its
    temporary files and sockets are in a folder of its user, which is removed when the engine is stopped.
    """
    mark_file, temporary = _write_mark(marks)
    temporary.mkdir(mode=0o700)  # fails if it exists: the name is random
    ids = ""
    if user is not None:
        os.chown(temporary, user.uid, user.gid)
        ids = f"{user.uid}:{user.gid}:{','.join(map(str, user.groups))}"
    log.parent.mkdir(parents=True, exist_ok=True)
    orders, guards = socket.socketpair()
    orders.settimeout(_INSIST_S)
    with log.open("wb") as output, guards:
        process = subprocess.Popen(
            (sys.executable, "-I", "-S", guard.__file__, str(most_log_bytes), ids, str(temporary), *command),
            stdin=guards.fileno(),
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=temporary,  # a folder without names that could be taken for a hub model or for a module of the engine
            env={"TMPDIR": str(temporary), **environment, **_KEEP_ENVIRONMENT, MARK: mark_file.stem},
            start_new_session=True,  # a signal that kills the worker's group must not kill the guard
        )
    return EngineProcess(process, orders, mark_file, temporary)


def _forget(mark_file: Path, temporary: Path) -> None:
    shutil.rmtree(temporary, ignore_errors=True)
    mark_file.with_suffix(_KEPT).unlink(missing_ok=True)
    mark_file.unlink(missing_ok=True)


def end_kept(marks: Path) -> None:
    """End the engines whose workers have no use for them now; those notice it later. Whoever removes the file beside
    the mark has the engine: its worker, which takes it back, or this one.
    """
    for kept in marks.glob(f"*{_KEPT}"):
        if _is_removed(kept):
            _kill_marked(kept.stem)


def _is_removed(file: Path) -> bool:
    """Remove the file. Return whether it was there: of several processes one alone gets True."""
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    return True


def end_leftovers(marks: Path) -> None:
    """End the engines that dead workers left on this host; those of living workers stay."""
    for mark_file in marks.glob("*.json"):
        try:
            owner = json.loads(mark_file.read_text(encoding="utf-8"))
            is_ours, pid, created_s = owner["host"] == platform.node(), int(owner["pid"]), float(owner["created_s"])
            temporary = Path(owner["temporary"])
        except FileNotFoundError:  # another worker was quicker
            continue
        except (ValueError, LookupError, TypeError):  # damaged by a power cut, which ended the engine too
            logger.warning("%s cannot be read and is removed", mark_file, exc_info=True)
            mark_file.unlink(missing_ok=True)
            continue
        if is_ours and not is_alive(pid, created_s):
            _kill_marked(mark_file.stem)
            _forget(mark_file, temporary)


def is_alive(pid: int, created_s: float) -> bool:
    """Return whether the process with this number is the one created then, and not a later one."""
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - created_s) < 2 and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _write_mark(marks: Path) -> tuple[Path, Path]:
    """Return the mark's file, and the temporary folder that it names."""
    marks.mkdir(parents=True, exist_ok=True)
    mark_file = marks / f"{uuid.uuid4().hex}.json"
    # not in the home if sockets in it had too long paths for the kernel
    folders = (marks.parent.absolute(), Path(tempfile.gettempdir()))
    short = (folder for folder in folders if len(os.fsencode(folder)) <= _LONGEST_TEMPORARY)
    temporary = next(short, Path("/tmp")) / f"drafthouse-{mark_file.stem[:16]}"  # noqa: S108 - a random name
    owner = {"host": platform.node(), "pid": os.getpid(), "created_s": psutil.Process().create_time()}
    owner |= {"temporary": str(temporary)}
    write_whole(mark_file, json.dumps(owner))
    return mark_file, temporary


def _kill_marked(mark: str) -> None:
    """KILL processes with this mark until none is left."""
    give_up_s = time.monotonic() + _INSIST_S
    while (left := list(marked(mark))) and time.monotonic() < give_up_s:
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=0.5)


def marked(mark: str) -> Iterator[psutil.Process]:
    """Yield the living processes with this mark."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # ended meanwhile, or another user's
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process
