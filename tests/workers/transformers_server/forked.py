"""Servers that share the seconds of one import: `python forked.py FOLDER`, a program for the engine's environment.

FOLDER is the server's. Each line of standard input is a JSON list, a log file and then the arguments of a server,
which is forked once everything that a server needs is imported. TERM ends all of them. The exit status is 0 if that of
each was.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import sys


def main(folder: str) -> int:
    sys.path.insert(0, folder)
    for name in ("loading", "routes"):
        importlib.import_module(name)
    servers = [_forked(folder, *json.loads(line)) for line in sys.stdin]

    def end_all(*_: object) -> None:
        for server in servers:
            os.kill(server, signal.SIGTERM)

    signal.signal(signal.SIGTERM, end_all)
    statuses = [os.waitpid(server, 0)[1] for server in servers]
    return max(map(bool, statuses))


def _forked(folder: str, log: str, *arguments: str) -> int:
    child = os.fork()
    if child == 0:
        output = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.argv = [folder, *arguments]
        runpy.run_path(folder, run_name="__main__")  # ends with SystemExit
    return child


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
