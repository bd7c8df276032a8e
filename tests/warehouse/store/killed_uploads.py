"""Processes that upload, and die by kill -9. Program: `python -m tests.warehouse.store.killed_uploads HOME TIMES`.

Each kills itself at another line of our own code, spread over all lines of an upload, while one more bundle waits for
each. The settings are those of the environment. At the end it prints how many were killed before they finished.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import warehouse
from host.settings import Settings
from tests.warehouse.runs import write_run
from warehouse.app_db.engine import app_engine
from warehouse.bundles.uploads import prepare, upload_all

_OURS = str(Path(warehouse.__file__).parent)


def upload(settings: Settings, kill_at: int | None, count_in: Path) -> None:
    """Upload what waits; the process dies at the line numbered `kill_at`, or the number of lines is written."""
    ran = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal ran
        if not frame.f_code.co_filename.startswith(_OURS):
            return None
        ran += event == "line"
        if ran == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    database = app_engine(settings.app_database_url)
    sys.settrace(trace)
    try:
        upload_all(settings, database)
    finally:
        sys.settrace(None)
        database.dispose()
    count_in.write_text(str(ran))


def forked(settings: Settings, kill_at: int | None, count_in: Path) -> bool:
    """Upload in a child, because threads of the library outlive no fork; return whether it was killed."""
    child = os.fork()
    if child == 0:
        upload(settings, kill_at, count_in)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), status
    return status == signal.SIGKILL


def main(home: Path, times: int) -> None:
    settings = Settings(home=home)
    prepare(settings)
    with tempfile.TemporaryDirectory() as scratch:
        count_in = Path(scratch) / "lines"
        for run_id in ("cold", "warm"):
            write_run(settings.bundles, run_id=run_id)
            forked(settings, None, count_in)
        lines, killed = int(count_in.read_text()), 0
        for number in range(times):
            write_run(settings.bundles, run_id=f"run-{number}")
            killed += forked(settings, 1 + number * lines // times, count_in)
        forked(settings, None, count_in)
    print(killed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
