"""`python -m webapp` on a free port."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from host.ports import free_port
from tests.cli.homes import REPOSITORY

#: Until the page answers; imports alone take seconds on a busy machine.
_START_S = 600.0


@contextmanager
def served(environment: Mapping[str, str], port: int | None = None, end: int = signal.SIGTERM) -> Iterator[str]:
    """The pages of the home that this environment, over our own, names; gives their address."""
    port = port or free_port()
    extra = {**environment, "DRAFTHOUSE_WEB_PORT": str(port)}
    process = subprocess.Popen((sys.executable, "-m", "webapp"), cwd=REPOSITORY, env=os.environ | extra)
    try:
        _wait_until_healthy(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(end)
        process.wait(600)


def _wait_until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    """The port listens at once, and answers when the imports are through."""
    deadline = time.monotonic() + _START_S
    while True:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_S)
        try:
            connection.request("GET", "/healthz")
            assert connection.getresponse().status == 200
        except ConnectionError:
            assert process.poll() is None, "the page ended before it answered"
            assert time.monotonic() < deadline, f"the page did not answer within {_START_S:g} s"
            time.sleep(0.1)  # between two looks at a condition with a deadline
        else:
            return
        finally:
            connection.close()
