"""A host in two slots: real workers, each on processors of its own, with real engine processes side by side."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import psutil
import pytest

from jobs import queue
from jobs.table import FINISHED
from lab.metrics.measure import measure
from lab.validity import judge
from tests.workers.homes import REPOSITORY, Home, until, worker_environment
from warehouse.bundles.run_bundle import find_bundles, read_bundle

pytestmark = [pytest.mark.engine, pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor has one slot")]

WORK = """
from warehouse.settings import load_settings
from workers.slots import take_slot
from workers.worker import Worker
settings = load_settings()
take_slot(settings)
worker = Worker(settings)
worker.start()
worker.join()
"""
PLAIN = [{"name": "plain"}]
SLOW = {"token_s": 0.03}  # a run takes a second or two
LOADS = [{"max_concurrency": streams, "num_prompts": 6} for streams in (1, 2)]


@contextlib.contextmanager
def workers_of_two_slots(home: Home) -> Iterator[list[subprocess.Popen[bytes]]]:
    started = []
    try:
        for slot in (1, 2):
            environment = worker_environment(home) | {"DRAFTHOUSE_SLOTS": "2", "DRAFTHOUSE_SLOT": str(slot)}
            with (home.folder / f"worker-{slot}.log").open("wb") as log:
                command = (sys.executable, "-c", WORK)
                started.append(subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=log, stderr=log))
        yield started
    finally:
        for worker in started:
            worker.kill()
            worker.wait()
        until(lambda: not home.engine_processes(), "no engine is left")


def is_running(home: Home, *job_ids: str) -> bool:
    return all(home.job(job_id).state == "running" for job_id in job_ids)


def is_over(home: Home, *job_ids: str) -> bool:
    return all(home.job(job_id).state in FINISHED for job_id in job_ids)


def test_two_studies_run_side_by_side_and_their_runs_say_so(home: Home) -> None:
    both_start = home.folder / "both start"
    flags = SLOW | {"await_file": str(both_start)}
    ids = [home.submit(arms=PLAIN, loads=LOADS, engine_flags=flags, alone=False) for _ in range(2)]
    with workers_of_two_slots(home):
        until(lambda: is_running(home, *ids) and len(home.engine_processes()) >= 4, "both engines are started")
        places = {tuple(process.cpu_affinity()) for process in home.engine_processes()}
        both_start.touch()
        until(lambda: is_over(home, *ids), "both studies end")
    assert [home.job(job_id).state for job_id in ids] == ["done", "done"]
    runs = home.runs()
    slots = {run.job_id: run.circumstances.settings["slot"] for run in runs}
    assert sorted(map(str, slots.values())) == ["1", "2"]
    mine = {run.job_id: tuple(run.circumstances.settings["slot_processors"]) for run in runs}  # type: ignore[arg-type]
    assert set(mine.values()) == places
    assert not set.intersection(*map(set, mine.values()))
    for run in runs:
        other = next(job_id for job_id in ids if job_id != run.job_id)
        assert run.circumstances.cpu_count == len(mine[run.job_id])
        assert [work.what for work in run.beside or () if work.kind == "job"] in ([other], [])
    disturbed = {run.job_id for run in runs if any(work.kind == "job" for work in run.beside or ())}
    assert disturbed == set(ids)
    assert {run.run_id for run in runs if run.beside} == judged_as_disturbed(home)


def judged_as_disturbed(home: Home) -> set[str]:
    found = set()
    for folder in find_bundles(home.settings.bundles):
        bundle = read_bundle(folder)
        metrics = measure(bundle.run, bundle.requests, bundle.telemetry)
        verdict = judge(bundle.run, bundle.requests, bundle.telemetry, metrics)
        if any(finding.check == "work_beside" and finding.severity == "invalid" for finding in verdict.findings):
            found.add(bundle.run.run_id)
    return found


def test_nothing_starts_beside_a_study_that_is_alone_though_its_worker_is_killed(home: Home) -> None:
    """Without GPUs, as here, it need not ask for that; with them it would say `alone = true`, which it says anyway."""
    alone = home.submit(arms=PLAIN, loads=LOADS, engine_flags=SLOW, alone=True)
    later = home.submit(arms=PLAIN, loads=LOADS[:1], alone=False)
    with workers_of_two_slots(home) as workers:
        until(lambda: len(home.runs()) == 1, "a first run")
        assert home.job(later).state == "queued"
        holder = (home.job(alone).worker or "").split("/")[1]
        psutil.Process(int(holder)).send_signal(signal.SIGKILL)
        until(lambda: any(worker.poll() is not None for worker in workers), "its worker is gone")
        until(lambda: is_over(home, alone, later), "both studies end")
    assert [home.job(job_id).state for job_id in (alone, later)] == ["done", "done"]
    assert home.event_kinds(alone) == ["submitted", "claimed", "requeued", "claimed", "done"]
    began = next(event.at for event in queue.events(home.database, later) if event.kind == "claimed")
    assert began >= queue.events(home.database, alone)[-1].at
    runs = home.runs()
    assert Counter(run.cell_key for run in runs).most_common(1)[0][1] == 1
    assert [[work.what for work in run.beside or () if work.kind == "job"] for run in runs] == [[]] * 3
