"""A host in two slots: real workers, each on processors of its own, with real engine processes side by side."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from host import quiet
from jobs import queue
from jobs.table import FINISHED
from lab.metrics.measure import measure
from lab.metrics.records import RunRecord
from lab.validity import StudyRun, judge, judge_study
from tests import processes
from tests.actors import ADMIN
from tests.workers.homes import NGRAM, REPOSITORY, Home, new_home, until, worker_environment
from warehouse.bundles.run_bundle import Bundle, find_bundles, read_bundle

pytestmark = [pytest.mark.engine, pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor has one slot")]

PLAIN = [{"name": "plain"}]
#: The check that is provoked here.
SLOWER_SLOT, TRIES = "slot_differs", 3
SLOW = {"token_s": 0.03}  # a run takes a second or two
LOADS = [{"max_concurrency": streams, "num_prompts": 6} for streams in (1, 2)]
#: The requests at which the windows of LOADS begin on an engine: its start and warm-ups come before.
FIRST_RUN, SECOND_RUN = 1 + 4 + 1, 1 + 4 + 6 + 2 + 1


@contextlib.contextmanager
def workers_of_two_slots(home: Home) -> Iterator[list[processes.Started]]:
    started: list[processes.Started] = []
    try:
        for slot in (1, 2):
            environment = worker_environment(home) | {"DRAFTHOUSE_SLOTS": "2", "DRAFTHOUSE_SLOT": str(slot)}
            log = home.folder / f"worker-{slot}.log"
            started.append(
                processes.start("tests.workers.unattended", environment=environment, folder=REPOSITORY, output=log)
            )
        yield started
    finally:
        for worker in started:
            worker.kill()
            worker.wait()
        until(lambda: not home.engine_processes(), "no engine is left")


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Home]:
    with new_home(tmp_path_factory.mktemp("host"), migrated) as home, workers_of_two_slots(home):
        yield home


@pytest.fixture
def host(working: Home) -> Iterator[Home]:
    """Both slots at work, for tests that end no worker. Its other studies are those of other tests."""
    yield working
    until(lambda: not working.engine_processes(), "the engines of the test are gone")


def are_measured(home: Home, *job_ids: str) -> bool:
    phases = {progress and progress.phase for progress in (home.job(job_id).progress for job_id in job_ids)}
    return phases == {"measuring"}


def begun_on_both(home: Home, **study: Any) -> str:
    """A study whose engines start once each slot has one of them to start."""
    both_start = home.folder / uuid.uuid4().hex
    study["engine_flags"] = study["engine_flags"] | {"await_file": str(both_start)}
    job_id = home.submit(**study)
    until(lambda: len(home.engine_processes()) >= 4, "each slot has an engine and its guard")
    both_start.touch()
    return job_id


def is_over(home: Home, *job_ids: str) -> bool:
    return all(home.job(job_id).state in FINISHED for job_id in job_ids)


def bundles_of(home: Home, *job_ids: str) -> list[Bundle]:
    return [bundle for bundle in map(read_bundle, find_bundles(home.settings.bundles)) if bundle.run.job_id in job_ids]


def runs_of(home: Home, *job_ids: str) -> list[RunRecord]:
    return [run for run in home.runs() if run.job_id in job_ids]


def test_two_studies_run_side_by_side_and_their_runs_say_so(host: Home) -> None:
    both_measure = host.folder / "both measure"
    flags = {"await_file": str(both_measure), "await_at_request": FIRST_RUN}
    ids = [host.submit(arms=PLAIN, loads=LOADS, engine_flags=flags, alone=False) for _ in range(2)]
    until(lambda: are_measured(host, *ids), "the first windows of both are open")
    places = {tuple(process.cpu_affinity()) for process in host.engine_processes()}
    both_measure.touch()
    until(lambda: is_over(host, *ids), "both studies end")
    assert [host.job(job_id).state for job_id in ids] == ["done", "done"]
    runs = runs_of(host, *ids)
    slots = {run.job_id: run.circumstances.slot for run in runs}
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
    assert {run.run_id for run in runs if run.beside} == judged_as_disturbed(bundles_of(host, *ids))


def judged_as_disturbed(bundles: list[Bundle]) -> set[str]:
    found = set()
    for bundle in bundles:
        metrics = measure(bundle.run, bundle.requests, bundle.telemetry)
        verdict = judge(bundle.run, bundle.requests, bundle.telemetry, metrics)
        if any(finding.check == "work_beside" and finding.severity == "invalid" for finding in verdict.findings):
            found.add(bundle.run.run_id)
    return found


def test_nothing_starts_beside_a_lone_study_though_its_worker_is_killed(home: Home) -> None:
    """Without GPUs, as here, it need not ask for that; with them it would say `alone = true`, which it says anyway."""
    flags = {"await_file": str(home.folder / "never there"), "await_at_request": SECOND_RUN}
    alone = home.submit(arms=PLAIN, loads=LOADS, engine_flags=flags, alone=True)
    later = home.submit(arms=PLAIN, loads=LOADS[:1], alone=False)
    with workers_of_two_slots(home) as workers:
        until(home.runs, "a first run")  # another engine has fewer requests before the second one
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


SPREAD = {
    "arms": [{"name": "plain"}, {"name": "drafted", "speculation": NGRAM}],
    "spread": True,
    "alone": False,
}
SPREAD |= {"loads": LOADS[:1], "repeats": 4, "engine_flags": SLOW}


def blocks_by_slot(home: Home, job_id: str) -> dict[int, set[object]]:
    """The slots on which each repeat was measured."""
    places: dict[int, set[object]] = {}
    for run in runs_of(home, job_id):
        places.setdefault(run.repeat, set()).add(run.circumstances.slot)
    return places


def assert_measured_once(home: Home, job_id: str) -> None:
    job = home.job(job_id)
    assert (job.state, job.error) == ("done", None)
    runs = runs_of(home, job_id)
    assert [run.status for run in runs] == ["completed"] * 8
    assert len({run.cell_key for run in runs}) == 8
    assert job.progress is not None
    assert (job.progress.runs_done, job.progress.runs_total) == (8, 8)


def test_the_slots_of_a_host_share_a_study_by_repeats(host: Home) -> None:
    both_measure = host.folder / "both slots measure"
    flags = SLOW | {"await_file": str(both_measure), "await_at_request": FIRST_RUN}
    job_id = host.submit(**SPREAD | {"engine_flags": flags})
    until(lambda: len(quiet.under_way(host.settings.home, "window")) == 2, "each slot has a window open")
    both_measure.touch()
    until(lambda: is_over(host, job_id), "the study ends")
    assert_measured_once(host, job_id)
    places = blocks_by_slot(host, job_id)
    assert {len(slots) for slots in places.values()} == {1}
    assert set().union(*places.values()) == {1, 2}
    neighbours = {work.what for run in runs_of(host, job_id) for work in run.beside or () if work.kind == "job"}
    assert neighbours == {f"{job_id} on slot 1", f"{job_id} on slot 2"}


def test_a_slot_that_is_slower_than_its_like_is_named(host: Home) -> None:
    """Of six blocks of four runs it gets two or so; one would do. A machine that stands still in one of them scatters
    the runs so much that no slot stands out: then another study is measured.
    """
    flags = {"token_s": 0.04, "half_as_fast_on": max(os.sched_getaffinity(0))}
    for _ in range(TRIES):
        job_id = begun_on_both(host, **SPREAD | {"repeats": 6, "loads": LOADS, "engine_flags": flags})
        until(partial(is_over, host, job_id), "the study ends")
        bundles = bundles_of(host, job_id)
        in_study = [StudyRun(each.run, measure(each.run, each.requests, each.telemetry)) for each in bundles]
        if found := [each for each in judge_study(in_study).findings if each.check == SLOWER_SLOT]:
            break
    slower = next(
        run.circumstances.slot
        for run in (bundle.run for bundle in bundles)
        if flags["half_as_fast_on"] in run.circumstances.settings["slot_processors"]  # type: ignore[operator]
    )
    (finding,) = found
    assert finding.severity == "warning"
    assert re.match(rf"On slot {slower} the .* (lower|higher) than usual on its like", finding.sentence)


def held_later(home: Home, **study: Any) -> tuple[str, Path]:
    """A study of which three runs are measured, in two blocks, and the others once the file is there."""
    may_go_on = home.folder / "may go on"
    counted = {"counter_file": str(home.folder / "starts"), "await_from_start": 4, "await_file": str(may_go_on)}
    return home.submit(**study | {"engine_flags": study["engine_flags"] | counted}), may_go_on


@pytest.mark.parametrize("killed", ["the job's own worker", "the one that helps"])
def test_a_killed_worker_of_a_shared_study_loses_and_doubles_nothing(home: Home, killed: str) -> None:
    job_id, may_go_on = held_later(home, **SPREAD)
    with workers_of_two_slots(home) as workers:
        until(lambda: len(blocks_by_slot(home, job_id)) >= 2, "runs of two blocks")
        own = int((home.job(job_id).worker or "").split("/")[1])
        victim = next(worker for worker in workers if (worker.pid == own) == (killed == "the job's own worker"))
        victim.kill()
        done = {run.run_id: run.started_at for run in home.runs()}
        may_go_on.touch()
        until(lambda: is_over(home, job_id), "the other one ends the study")
    assert_measured_once(home, job_id)
    assert done.items() <= {run.run_id: run.started_at for run in home.runs()}.items()
    requeued = home.event_kinds(job_id).count("requeued")
    assert requeued == (killed == "the job's own worker")


#: The arms are the same to the engine: a look says so, or that it takes more than the budget.
UNTIL_DECIDED = SPREAD | {"repeats": "until decided", "budget": "10 min", "engine_flags": {"token_s": 0.01}}


def test_the_slots_share_a_study_until_decided(host: Home) -> None:
    job_id = host.submit(**UNTIL_DECIDED)
    until(lambda: is_over(host, job_id), "the study ends")
    assert_ended_of_itself(host, job_id)
    assert {len(slots) for slots in blocks_by_slot(host, job_id).values()} == {1}


def test_a_killed_worker_of_a_study_until_decided_loses_and_doubles_nothing(home: Home) -> None:
    job_id, may_go_on = held_later(home, **UNTIL_DECIDED)
    with workers_of_two_slots(home) as workers:
        until(lambda: len(home.runs()) >= 3, "runs of two blocks")
        own = int((home.job(job_id).worker or "").split("/")[1])
        next(worker for worker in workers if worker.pid == own).kill()
        may_go_on.touch()
        until(lambda: is_over(home, job_id), "the study ends")
    assert_ended_of_itself(home, job_id)


def assert_ended_of_itself(home: Home, job_id: str) -> None:
    job = home.job(job_id)
    assert (job.state, job.error) == ("done", None)
    assert job.progress is not None
    assert job.progress.end_reason in ("decided", "hopeless", "budget spent")
    assert "of 1 comparisons" in job.progress.end_sentence
    runs = runs_of(home, job_id)
    assert len({run.cell_key for run in runs}) == len(runs) == job.progress.runs_done >= 4
    assert {run.arm.name for run in runs if run.repeat == 0} == {"plain", "drafted"}


def test_a_shared_study_that_is_cancelled_ends_on_every_slot(host: Home) -> None:
    job_id = host.submit(**SPREAD | {"engine_flags": {"token_s": 2.0}})
    until(lambda: len(host.engine_processes()) >= 4, "both measure")
    queue.cancel(host.database, job_id, actor=ADMIN)
    until(lambda: is_over(host, job_id) and not host.engine_processes(), "no engine is left")
    assert (host.job(job_id).state, runs_of(host, job_id)) == ("cancelled", [])
