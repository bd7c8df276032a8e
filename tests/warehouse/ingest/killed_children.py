"""Ingesters that are forked, for speed, and die by kill -9.

Program: `python -m tests.warehouse.ingest.killed_children HOME MODE TIMES`.

MODE `lines`: each kills itself at another line of the warehouse's own code, spread over all lines of an ingestion.
MODE `turns`: the same, where master and published file take turns as if they were large, groups of rows are merged all
the time, and the next master is prepared and published too.
MODE `moments`: each is killed by a timer at another moment of an ingestion, wherever DuckDB is then. The timer counts
the child's processor time, so that a busy machine changes nothing.
One more bundle waits for each, and after each the published file must open. At the end one ingests what is left.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import duckdb

import warehouse
from host.settings import Settings
from tests.warehouse.runs import failed_request, request, write_run
from warehouse.app_db.engine import app_engine
from warehouse.ingest import publication, row_groups
from warehouse.ingest.master import only_ingester
from warehouse.ingest.opened import OPENED_FILE
from warehouse.ingest.service import ingest_all, ingest_once, open_ingester

#: Moments of death lie in this share of the time that an ingestion takes, so that nearly all come before its end.
MOMENTS_SHARE = 0.8
_OURS = str(Path(warehouse.__file__).parent)


def ingest_and_take_turns(settings: Settings) -> None:
    """Ingest and publish every bundle that exists now, prepare the next publication, and publish that."""
    app = app_engine(settings.app_database_url)
    with only_ingester(settings.home), open_ingester(settings, app) as ingester:
        while ingest_once(ingester):
            pass
        ingest_once(ingester)
        ingester.published = False
        ingest_once(ingester)


def lines_of_one_ingestion(
    settings: Settings, kill_at: int | None, ingest: Callable[[Settings], None] = ingest_all
) -> int:
    """Ingest and count the lines of the warehouse that ran; the process dies at the one numbered `kill_at`."""
    ran = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal ran
        if not frame.f_code.co_filename.startswith(_OURS):
            return None
        ran += event == "line"
        if ran == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    try:
        ingest(settings)
    finally:
        sys.settrace(None)
    return ran


def ingest_until(settings: Settings, after_s: float) -> None:
    """Ingest until the process has used so much processor time: the timer's signal then ends it, as kill -9 would."""
    signal.setitimer(signal.ITIMER_PROF, after_s)
    ingest_all(settings)
    signal.setitimer(signal.ITIMER_PROF, 0)


def forked(work: Callable[[], object]) -> int:
    """Fork a child that does the work and exits."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    return child


def outlived_by_the_published_file(child: int, settings: Settings) -> bool:
    """Wait for the child and return whether it was killed; the published file must open in either case."""
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL, signal.SIGPROF), status
    with duckdb.connect(settings.warehouse_file, read_only=True) as connection:
        assert connection.execute("select count(*) from results").fetchone() is not None
    return status != 0


def main(home: Path, mode: str, times: int) -> None:
    """Print how many children were killed before they finished."""
    settings, moments = Settings(home=home), random.Random(7)  # noqa: S311 - the same moments in every run
    ingest = ingest_all
    if mode == "turns":
        publication.CHEAP_COPY_BYTES, publication.CLONE, publication.OPENING_TAKES_S = 0, "--no-such-option", 0.0
        row_groups.RUNS_A_GROUP, ingest = 2, ingest_and_take_turns
    lines = 0
    for run_id in ("cold", "warm"):  # the first ingestion runs lines that caches save the others
        write_run(settings.bundles, run_id=run_id)
        lines = lines_of_one_ingestion(settings, None, ingest)
    write_run(settings.bundles, run_id="timed")
    started = time.process_time()
    ingest_all(settings)
    took_s = time.process_time() - started
    killed = 0
    for number in range(times):
        write_run(settings.bundles, (request(), failed_request(index=1)), run_id=f"run-{number}")
        if mode != "moments":
            child = forked(lambda at=1 + number * lines // times: lines_of_one_ingestion(settings, at, ingest))  # type: ignore[misc]  # mypy: defaults of a lambda
        else:
            after_s = moments.uniform(0.01, MOMENTS_SHARE) * took_s
            child = forked(functools.partial(ingest_until, settings, after_s))
        killed += outlived_by_the_published_file(child, settings)
    (home / OPENED_FILE).unlink(missing_ok=True)  # one bundle may have been open at two deaths, and so be set aside
    ingest_all(settings)
    print(killed)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
