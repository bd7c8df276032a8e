"""kill -9, Ctrl-C and a broker that goes away: real worker processes, a real Valkey, a real engine process."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from host.process_memory import EXIT_STATUS
from jobs import queue
from jobs.fleet import leases
from jobs.table import FINISHED
from lab.metrics.records import RunRecord
from lab.schedule import End, schedule_of
from tests import processes
from tests.actors import ADMIN
from tests.workers.homes import NGRAM, REPOSITORY, Home, celery_worker, new_home, outcomes, until, worker_environment
from tests.workers.valkey import Broker
from workers.engine_runtime.process import end_leftovers
from workers.worker import Worker, is_dead

pytestmark = pytest.mark.engine

SLOW = {"token_s": 0.03}  # a run takes a second or two
PLAIN = [{"name": "plain"}]
LONG_ANSWERS = {"output_tokens": 100_000}  # at that pace a run takes hours, its warm-up a second or two
#: The request at which the second run of MANY_LOADS begins on an engine: its start, warm-ups and the first run before.
SECOND_RUN = 1 + 4 + 6 + 2 + 1
MANY_LOADS = [{"max_concurrency": streams, "num_prompts": 6} for streams in (1, 2, 3)]


@pytest.fixture(scope="module")
def working_home(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Home]:
    """With a broker and one worker, for tests that neither end it nor take the broker away."""
    folder = tmp_path_factory.mktemp("working")
    broker = Broker(folder / "valkey")
    broker.start()
    with new_home(folder, migrated, broker_url=broker.url) as home, celery_worker(home):
        yield home
    broker.stop()


def in_phase(home: Home, job_id: str, phase: str) -> bool:
    progress = home.job(job_id).progress
    return progress is not None and progress.phase == phase


def measuring(home: Home, job_id: str) -> bool:
    return in_phase(home, job_id, "measuring")


def ended(home: Home, job_id: str) -> bool:
    return home.job(job_id).state in FINISHED


def worker_log(home: Home) -> str:
    return (home.folder / "worker.log").read_text()


def assert_every_run_once(home: Home, count: int) -> None:
    runs = home.runs()
    assert Counter(run.cell_key for run in runs).most_common(1)[0][1] == 1
    assert [run.status for run in runs] == ["completed"] * count


def test_a_worker_over_its_memory_limit_ends(woken_home: Home) -> None:
    with celery_worker(woken_home, DRAFTHOUSE_WORKER_MEMORY_MIB="64") as worker:
        assert worker.wait(600) == EXIT_STATUS
    assert "and its limit is 64: it ends" in worker_log(woken_home)


def test_a_killed_worker_is_followed_by_one_that_runs_only_the_rest(
    woken_home: Home,
) -> None:
    home, may_go_on = woken_home, woken_home.folder / "may go on"
    flags = {"await_file": str(may_go_on), "await_at_request": SECOND_RUN}
    job_id = home.submit(engine_flags=flags, loads=MANY_LOADS)
    with celery_worker(home) as first:
        until(lambda: home.runs() and measuring(home, job_id), "a second run")
        first.send_signal(signal.SIGKILL)
        first.wait()
        done = {run.run_id: run.started_at for run in home.runs()}
    may_go_on.touch()
    until(lambda: not home.engine_processes(), "the engine is gone with its worker")
    killed_s = time.monotonic()
    with celery_worker(home):
        until(lambda: home.event_kinds(job_id).count("claimed") == 2, "the job is picked up")
        print(f"kill to pick-up, the worker's own start included: {time.monotonic() - killed_s:.1f} s")
        until(lambda: ended(home, job_id), "the job ends")
    assert home.job(job_id).state == "done"
    assert_every_run_once(home, 6)
    assert done.items() <= {run.run_id: run.started_at for run in home.runs()}.items()


def test_the_job_of_another_hosts_worker_is_taken_when_its_lease_ends(working_home: Home) -> None:
    home, lease_s = working_home, 6.0
    before = home.submit(engine_flags=SLOW, arms=PLAIN, workloads=[LONG_ANSWERS | home.prompts])
    until(lambda: measuring(home, before), "the worker is busy")
    job_id = home.submit(loads=MANY_LOADS[:1])
    leases.claim(home.database, "elsewhere/1/abc/1.0", lease_s)
    queue.cancel(home.database, before, actor=ADMIN)
    until(lambda: ended(home, job_id), "the job ends")
    events = queue.events(home.database, job_id)
    assert [event.kind for event in events] == ["submitted", "claimed", "requeued", "claimed", "done"]
    assert (events[2].at - events[1].at).total_seconds() >= lease_s


def test_leftovers_of_a_killed_worker_and_guard_are_ended_by_the_next(
    woken_home: Home,
) -> None:
    home = woken_home
    flags = SLOW | {"stubborn_child": True}
    job_id = home.submit(engine_flags=flags, workloads=[LONG_ANSWERS | home.prompts])
    with celery_worker(home) as worker:
        until(lambda: measuring(home, job_id), "a run")
        engine = {process.pid for process in home.engine_processes()}
        guards = [process for process in psutil.Process(worker.pid).children() if process.pid in engine]
        assert guards
        worker.send_signal(signal.SIGKILL)
        for guard in guards:
            guard.kill()
        worker.wait()
    until(lambda: len(home.engine_processes()) == 1, "only the deaf child is left: the engine died with its guard")
    end_leftovers(home.settings.home / "engines")
    assert home.engine_processes() == []
    queue.cancel(home.database, job_id, actor=ADMIN)


def test_an_interrupted_worker_gives_its_job_back_and_leaves_no_engine(woken_home: Home) -> None:
    home = woken_home
    job_id = home.submit(engine_flags=SLOW, workloads=[LONG_ANSWERS | home.prompts])
    with celery_worker(home) as worker:
        until(lambda: measuring(home, job_id), "a run")
        worker.send_signal(signal.SIGINT)
        took_s = until(lambda: worker.poll() is not None, "the worker ends")
    print(f"INT to end: {took_s:.1f} s")
    assert home.job(job_id).state == "queued"
    assert home.event_kinds(job_id)[-1] == "released"
    assert home.engine_processes() == []
    queue.cancel(home.database, job_id, actor=ADMIN)


@pytest.mark.parametrize("phase", ["starting engine", "measuring"])
def test_a_cancelled_job_is_gone_though_its_engine_takes_hours(working_home: Home, phase: str) -> None:
    home = working_home
    waits = {"await_file": str(home.folder / "never there")} if phase == "starting engine" else {}
    flags = SLOW | {"stubborn_child": True} | waits
    job_id = home.submit(engine_flags=flags, workloads=[LONG_ANSWERS | home.prompts])
    until(lambda: in_phase(home, job_id, phase) and home.engine_processes(), phase)
    queue.cancel(home.database, job_id, actor=ADMIN)
    took_s = until(lambda: home.job(job_id).state == "cancelled", "the job is cancelled")
    print(f"cancelled within {took_s:.2f} s while {phase}")
    assert home.engine_processes() == []


def test_two_workers_share_a_queue_and_run_no_job_twice(woken_home: Home) -> None:
    home = woken_home
    ids = [home.submit(loads=MANY_LOADS[:1]) for _ in range(4)]
    with celery_worker(home), celery_worker(home):
        until(lambda: all(ended(home, job_id) for job_id in ids), "all jobs end")
    assert [home.event_kinds(job_id) for job_id in ids] == [["submitted", "claimed", "done"]] * 4
    assert_every_run_once(home, 8)


def test_a_broker_that_goes_away_disturbs_no_job_present_or_later(woken_home: Home, broker: Broker) -> None:
    home = woken_home
    first = home.submit(engine_flags=SLOW, arms=PLAIN, loads=MANY_LOADS)
    with celery_worker(home) as worker:
        until(lambda: measuring(home, first), "a run")
        broker.stop()
        until(lambda: "no longer working on" in worker_log(home), "the first job ends")
        second = home.submit(engine_flags=SLOW, arms=PLAIN, workloads=[LONG_ANSWERS | home.prompts])
        until(lambda: measuring(home, second), "the second job is measured without a broker")
        worker.send_signal(signal.SIGINT)  # the job is not Celery's, which must wait for it all the same
        until(lambda: worker.poll() is not None, "the worker ends")
    assert home.job(first).state == "done"
    assert home.event_kinds(first) == ["submitted", "claimed", "done"]
    assert home.event_kinds(second) == ["submitted", "claimed", "released"]
    assert home.engine_processes() == []
    queue.cancel(home.database, second, actor=ADMIN)


def test_progress_says_the_phase_the_time_that_is_left_and_figures(working_home: Home) -> None:
    home, may_start = working_home, working_home.folder / "may start"
    flags = {"token_s": 0.2, "await_file": str(may_start)}  # the run lasts for minutes after its first figures
    job_id = home.submit(engine_flags=flags, arms=PLAIN, loads=[{"max_concurrency": 1, "num_prompts": 64}])
    until(lambda: in_phase(home, job_id, "starting engine"), "the start")
    starting = home.job(job_id).progress
    may_start.touch()

    def has_figures() -> bool:
        progress = home.job(job_id).progress
        return progress is not None and bool(progress.output_tok_per_s and progress.ttft_ms)

    until(has_figures, "figures of the first answers")
    measuring_now = home.job(job_id).progress
    queue.cancel(home.database, job_id, actor=ADMIN)
    until(lambda: ended(home, job_id), "the job is cancelled")
    assert starting is not None
    assert measuring_now is not None
    assert measuring_now.phase == "measuring"
    assert None not in (starting.remaining_s, measuring_now.remaining_s)


def test_a_worker_that_was_paused_beyond_its_lease_writes_nothing_more(woken_home: Home) -> None:
    home = woken_home.leased_for(30.0)
    job_id = home.submit(engine_flags=SLOW, workloads=[LONG_ANSWERS | home.prompts])
    with celery_worker(home) as worker:
        until(lambda: measuring(home, job_id), "a run")
        os.kill(worker.pid, signal.SIGSTOP)
        until(lambda: leases.requeue_expired(home.database) == [job_id], "the lease runs out")
        taken = leases.claim(home.database, "another", lease_s=300.0)
        assert taken is not None
        os.kill(worker.pid, signal.SIGCONT)
        until(lambda: not home.engine_processes(), "the engine of the paused worker is stopped")
        assert home.job(job_id).worker == "another"
        assert home.runs() == []
    leases.finish(home.database, job_id, "another", "cancelled")


def test_a_worker_with_a_database_of_another_revision_says_so_and_ends(woken_home: Home) -> None:
    (woken_home.settings.home / "app.sqlite").unlink()
    with celery_worker(woken_home) as worker:
        until(lambda: worker.poll() is not None, "the worker ends")
    assert worker.returncode != 0
    assert "drafthouse migrate" in worker_log(woken_home)


TRIES = 10
#: The draft is twice as fast, so it is chosen, and measured beside no speculation once more at the end.
TUNING = {
    "arms": [
        {"name": "plain", "flags": {"token-s": 0.02}},
        {"name": "look-up", "flags": {"token-s": 0.01}, "speculation": NGRAM},
    ],
    "loads": [{"max_concurrency": 1, "num_prompts": 4}],
    "tune": {"drafted_tokens": [1, 3], "budget_minutes": 30.0},  # also a busy machine does not use it up
}
SEARCH = {
    "arms": [{"name": "plain", "flags": {"slots": 2, "token-s": 0.05}}],
    "loads": [{"find": "concurrency", "max_concurrency": 16, "num_prompts": 16, "slo_share": 0.9}],
    "slo": {"ttft_ms": 375},
}


def runs_of(home: Home, job_id: str) -> list[RunRecord]:
    return [run for run in home.runs() if run.job_id == job_id]


def killed_at_third_window(home: Home, number: int, study: dict[str, Any]) -> str:
    """Submit the study, and kill its worker as its third window begins, unless it has ended before."""
    job_id, held = home.submit(**study), home.folder / f"held {number}"
    worker = processes.start(
        *("tests.workers.unattended", "once", "hold", "3", str(held)),
        environment=worker_environment(home),
        folder=REPOSITORY,
        output=home.folder / "worker.log",
    )
    try:
        until(lambda: worker.poll() is not None or held.exists(), "its third window begins, or its end")
        until(lambda: worker.poll() is not None or len(runs_of(home, job_id)) == 2, "both bundles are written")
    finally:
        worker.kill()
        worker.wait()
    return job_id


@pytest.mark.parametrize("study", [TUNING, SEARCH], ids=["tuning", "search"])
def test_a_killed_worker_of_an_adaptive_study_loses_and_doubles_nothing(home: Home, study: dict[str, Any]) -> None:
    """What it measures next depends on what it measured: where a busy machine left nothing for a third window, the
    study had ended, and is submitted again.
    """
    killed = (killed_at_third_window(home, number, study) for number in range(TRIES))
    job_id = next(job_id for job_id in killed if home.job(job_id).state == "running")
    done = {run.run_id: run.started_at for run in home.runs()}
    until(lambda: not home.engine_processes(), "the engine is gone with its worker")
    assert leases.requeue_expired(home.database, is_dead) == [job_id]
    Worker(home.settings).work()
    job, runs = home.job(job_id), home.runs()
    assert (job.state, job.error) == ("done", None)
    assert_every_run_once(home, len(runs))
    assert len(runs) > len(done) >= 2
    assert done.items() <= {run.run_id: run.started_at for run in runs}.items()
    runs = runs_of(home, job_id)
    assert job.progress is not None
    assert job.progress.runs_done == job.progress.runs_total == len(runs)  # no bundle lies beside the way
    assert isinstance(schedule_of(job.study).next(outcomes(home, job)), End)
