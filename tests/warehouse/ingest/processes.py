"""The real ingester in its own process."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from host.settings import Settings
from tests import processes


@contextlib.contextmanager
def ingester(settings: Settings, **more: str) -> Iterator[processes.Started]:
    """`python -m warehouse.ingest.service` on the home; its log is <home>/ingester.log. Killed at the end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTHOUSE_")}
    environment |= {"DRAFTHOUSE_HOME": str(settings.home), "DRAFTHOUSE_INGEST_EVERY_S": "0.05"} | more
    module = "warehouse.ingest.service"
    process = processes.start(module, environment=environment, folder=settings.home, output=log(settings))
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def log(settings: Settings) -> Path:
    return settings.home / "ingester.log"


def until(true: Callable[[], bool], within_s: float = 600.0) -> float:
    """Wait until the condition is true and return the seconds it took. Raises AssertionError after `within_s`."""
    started = time.monotonic()
    while not true():
        assert time.monotonic() - started < within_s, "did not happen in time"
        time.sleep(0.1)  # most conditions open a database, which takes as long as 0.02 s of a processor
    return time.monotonic() - started
