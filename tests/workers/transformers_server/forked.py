"""Programs that share the seconds of one import: `python forked.py FOLDER`, a program for the engine's environment.

FOLDER is the server's. Each line of standard input is a JSON list of a program, a log file and the program's arguments;
the program is forked once everything that a server needs is imported. Its exit status is written to LOG.status. TERM
ends all of them.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import traceback
from pathlib import Path

_SIGNALS = (signal.SIGTERM, signal.SIGCHLD)


def main(folder: str) -> None:
    sys.path.insert(0, folder)
    for name in ("loading", "routes"):
        importlib.import_module(name)
    children: list[int] = []

    def end_all(*_: object) -> None:
        for child in children:
            os.kill(child, signal.SIGTERM)

    def reap(*_: object) -> None:
        for child in [child for child in children if os.waitpid(child, os.WNOHANG)[0]]:
            children.remove(child)

    signal.signal(signal.SIGTERM, end_all)
    signal.signal(signal.SIGCHLD, reap)
    for line in sys.stdin:
        _fork(children, *json.loads(line))
    for child in children:
        with contextlib.suppress(ChildProcessError):  # reaped just now
            os.waitpid(child, 0)


def _fork(children: list[int], program: str, log: str, *arguments: str) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until the child is known, and has handlers of its own
    child = os.fork()
    if child == 0:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
    else:
        children.append(child)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    if child == 0:
        output = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv = [program, *arguments]
        status = _run(program)
        sys.stdout.flush()
        sys.stderr.flush()
        writing = Path(log + ".writing")
        writing.write_text(str(status), encoding="utf-8")
        writing.rename(log + ".status")
        os._exit(0)


def _run(program: str) -> object:
    """Return its exit status."""
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        return end.code or 0
    except BaseException:  # noqa: BLE001 - it is the end of the program, as Python itself would end it
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    main(sys.argv[1])
