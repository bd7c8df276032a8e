"""A study beside an ingester: each run is published between two windows, and no ingester holds a window up for long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from host import quiet
from lab.study.plan import PlannedRun
from tests.warehouse.asking import ask
from tests.workers.homes import PATIENCE_S, Home
from warehouse.bundles.run_bundle import find_bundles
from warehouse.ingest import service
from workers import launch_runner
from workers.job_progress import JobStatus
from workers.worker import Worker

LOADS = [{"max_concurrency": 1, "num_prompts": 8}, {"max_concurrency": 2, "num_prompts": 8}]
ONE_ARM = [{"name": "plain"}]


@contextmanager
def beside(work: Callable[[threading.Event], object]) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=work, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_every_run_is_published_before_the_next_window_and_none_during_one(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, at_begins = home.settings, list[tuple[int, int]]()
    begins = JobStatus.window_begins

    def noting(status: JobStatus, run: PlannedRun) -> None:
        bundles, published = list(find_bundles(settings.bundles)), ask(settings, "select run_id from runs")
        at_begins.append((len(bundles), len(published)))
        begins(status, run)

    monkeypatch.setattr(JobStatus, "window_begins", noting)
    monkeypatch.setattr(launch_runner, "_PATIENCE_S", PATIENCE_S)  # however long the ingester takes
    with beside(lambda stop: service.run(settings, stop)):
        while not quiet.under_way(settings.home, "ingester"):
            time.sleep(0.01)
        job_id = home.submit(arms=ONE_ARM, loads=LOADS, repeats=2)
        Worker(settings).work()
        ended_s = time.monotonic()
        while len(ask(settings, "select run_id from runs")) < 4:
            assert time.monotonic() < ended_s + PATIENCE_S
            time.sleep(0.01)
    assert home.job(job_id).state == "done"
    assert at_begins == [(number, number) for number in range(4)]
    assert [run.beside for run in home.runs()] == [()] * 4


def test_an_ingester_that_hangs_holds_each_window_up_for_a_bounded_time(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_runner, "_PATIENCE_S", 0.3)
    with (
        quiet.announced(home.settings.home, "ingester", "hangs"),
        quiet.announced(home.settings.home, "ingest", "hangs"),
    ):
        job_id = home.submit(arms=ONE_ARM, loads=LOADS)
        Worker(home.settings).work()
    assert home.job(job_id).state == "done"
    assert [[work.what for work in run.beside or ()] for run in home.runs()] == [["hangs"]] * 2
    assert all(run.idle_before_s is None or run.idle_before_s < PATIENCE_S for run in home.runs())


def test_another_workers_job_on_this_machine_is_recorded(home: Home) -> None:
    with quiet.announced(home.settings.home, "job", "another"):
        Worker(home.settings)
        home.submit(arms=ONE_ARM, loads=LOADS[:1])
        Worker(home.settings).work()
    (run,) = home.runs()
    assert run.beside is not None
    (work,) = run.beside
    assert (work.kind, work.what) == ("job", "another")
    assert run.duration_s is not None
    assert work.seconds >= run.duration_s
