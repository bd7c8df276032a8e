"""Full disks, worker names, digests, heartbeats: small parts without a test file of their own."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from host.os_errors import named_os_errors
from host.settings import Settings
from jobs import queue
from jobs.engines.capabilities import Capabilities
from jobs.fleet import leases
from jobs.fleet.leases import LeaseLost
from jobs.table import Job, Progress
from lab.errors import CancelledError, UserError
from tests import processes
from tests.actors import ADMIN
from tests.workers.homes import REPOSITORY, Home, celery_worker, until, worker_environment
from warehouse.app_db.schema import jobs as jobs_table
from workers import worker as worker_module
from workers.engine_runtime.kept import KeptEngines
from workers.engine_runtime.process import end_leftovers
from workers.heartbeat import EXIT_STATUS, Heartbeat, WorkerStops
from workers.job_runner import run_job
from workers.run_environment import weights_digest
from workers.worker import Worker, is_dead, worker_name


@pytest.mark.parametrize(
    ("error", "words", "is_of_host"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/var/run.json"),
            "writing a bundle failed: /var/run.json: No space left on device",
            True,
        ),
        (
            PermissionError(errno.EACCES, "Permission denied", "/a", None, "/b"),
            "writing a bundle failed: /a -> /b: Permission denied",
            True,
        ),
        (TimeoutError(), "writing a bundle failed: TimeoutError", True),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "/a"),
            "writing a bundle failed: /a: No such file or directory. Fix that, then retry the job",
            False,
        ),
    ],
)
def test_a_system_error_names_the_file_the_reason_and_whose_it_is(
    error: OSError,
    words: str,
    is_of_host: bool,  # noqa: FBT001
) -> None:
    with pytest.raises(UserError) as caught, named_os_errors("writing a bundle"):
        raise error
    assert (str(caught.value), caught.value.is_of_host) == (words, is_of_host)
    assert caught.value.__cause__ is error


def test_a_worker_without_a_broker_ends_with_a_sentence(tmp_path: Path) -> None:
    ours = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTHOUSE_")}
    worker = (sys.executable, "-m", "workers.celery_app")
    ours |= {"DRAFTHOUSE_HOME": str(tmp_path)}
    ended = subprocess.run(worker, check=False, env=ours, cwd=REPOSITORY, capture_output=True, text=True)
    sentence = f"{tmp_path} has no broker: start one with `drafthouse up`, or set DRAFTHOUSE_BROKER_URL\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", sentence)


def test_unreadable_weights_fail_the_job_by_name_and_leave_a_traceback(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    job_id, weights = home.submit(), home.folder / "model" / "model.safetensors"
    weights.unlink()
    weights.mkdir()
    Worker(home.settings).work()
    reason = f"{weights}: Is a directory. Fix that, then retry the job"
    assert home.job(job_id).state == "failed"
    assert home.job(job_id).error == f"computing the digests of models and datasets failed: {reason}"
    assert "IsADirectoryError" in caplog.text
    assert "_file_digest" in caplog.text


def test_an_error_before_the_first_run_fails_only_its_job(home: Home) -> None:
    home.submit()
    claimed = leases.claim(home.database, "me", 600.0)
    assert claimed is not None
    with heartbeat(home, claimed) as beating:
        broken = dataclasses.replace(claimed, study=None)  # type: ignore[arg-type]  # on purpose
        run_job(home.settings, broken, beating, kept=KeptEngines(home.settings))
    job = home.job(claimed.job_id)
    assert (job.state, job.progress) == ("failed", None)
    assert (job.error or "").startswith("an error inside Drafthouse (AttributeError: ")


def test_an_unreadable_job_stays_queued_while_the_others_are_done(home: Home) -> None:
    unreadable, other = home.submit(), home.submit(engine_flags={"fail_to_start": True})
    with home.database.begin() as connection:
        connection.execute(jobs_table.update().where(jobs_table.c.job_id == unreadable).values(study_json="{}"))
    worker = Worker(home.settings)
    worker.work()
    worker.work()
    assert home.job(other).state == "failed"
    assert home.event_kinds(unreadable) == ["submitted", "set aside"]
    queue.cancel(home.database, unreadable, actor=ADMIN)


def test_a_worker_that_cannot_start_leaves_a_traceback_and_no_ghost(home: Home) -> None:
    with home.database.begin() as connection:
        connection.exec_driver_sql("DROP TABLE workers")
    with celery_worker(home, DRAFTHOUSE_BROKER_URL="redis://127.0.0.1:1/0") as worker:
        assert worker.wait(600) != 0
    assert "no such table: workers" in (home.folder / "worker.log").read_text()


@pytest.mark.parametrize(("program", "thread"), [("heartbeat", "heartbeat of {job}"), ("polls", "polls of the queue")])
def test_a_thread_that_fails_takes_its_process_down_and_leaves_a_traceback(
    home: Home, job: Job, program: str, thread: str
) -> None:
    log = home.folder / "printed"
    failing = processes.start(
        *("tests.workers.failing_threads", program, job.job_id),
        environment=worker_environment(home),
        folder=REPOSITORY,
        output=log,
    )
    assert failing.wait(600) == EXIT_STATUS, log.read_text()
    printed = log.read_text()
    assert f"the thread '{thread.format(job=job.job_id)}' failed, so this process ends" in printed
    assert "Traceback" in printed
    assert "ZeroDivisionError" in printed


def test_capabilities_that_cannot_be_read_keep_no_worker_from_its_jobs(
    home: Home, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(settings: Settings) -> list[Capabilities]:
        raise IndexError("list index out of range")

    monkeypatch.setattr(worker_module, "all_capabilities", broken)
    worker = Worker(home.settings)
    worker._store_engines_when_idle()
    assert "the capabilities of this host's engines are unknown" in caplog.text
    assert "IndexError" in caplog.text
    job_id = home.submit(engine_flags={"fail_to_start": True})
    worker.work()
    assert home.job(job_id).state == "failed"


def test_a_damaged_mark_of_an_engine_stops_no_worker_from_starting(home: Home) -> None:
    marks = home.settings.home / "engines"
    marks.mkdir(exist_ok=True)
    for name, text in (("empty", ""), ("other", "{}"), ("list", "[]")):
        (marks / f"{name}.json").write_text(text)
    end_leftovers(marks)
    assert list(marks.glob("*.json")) == []


def test_a_worker_knows_its_dead_neighbours_from_the_living_and_from_strangers() -> None:
    read, write = os.pipe()
    neighbour = os.fork()
    if neighbour == 0:
        os.write(write, worker_name().encode())
        signal.pause()
    try:
        name = os.read(read, 1000).decode()
        assert not is_dead(name)
    finally:
        os.kill(neighbour, signal.SIGKILL)
        os.waitpid(neighbour, 0)
        os.close(read)
        os.close(write)
    assert is_dead(name)
    assert not is_dead(worker_name())
    assert not is_dead(name.replace(name.split("/")[2], "another0"))
    assert not is_dead("elsewhere/1/abc/1.0")
    assert not is_dead("")


def test_weights_are_hashed_once_and_again_when_they_change(home: Home) -> None:
    model, cache, checks = home.folder / "model", home.folder / "digests", []
    first = weights_digest(home.settings.models_dir, cache, str(model), lambda: checks.append(1))
    assert first is not None
    assert weights_digest(home.settings.models_dir, cache, str(model), lambda: checks.append(1)) == first
    assert len(checks) == 1
    (model / "model.safetensors").write_bytes(b"other weights")
    os.utime(model / "model.safetensors", (1, 1))
    assert weights_digest(home.settings.models_dir, cache, str(model), lambda: checks.append(1)) != first
    assert weights_digest(home.settings.models_dir, cache, "owner/model", lambda: checks.append(1)) is None


@pytest.fixture
def job(home: Home) -> Job:
    home.submit()
    claimed = leases.claim(home.database, "me", 600.0)
    assert claimed is not None
    return claimed


def heartbeat(home: Home, job: Job, lease_s: float = 600.0) -> Heartbeat:
    return Heartbeat(home.database, job, "me", lease_s)


async def for_ever() -> None:
    await asyncio.Event().wait()


def test_a_cancelled_job_interrupts_whatever_runs(home: Home, job: Job) -> None:
    with heartbeat(home, job) as beating:
        queue.cancel(home.database, job.job_id, actor=ADMIN)
        with pytest.raises(CancelledError):
            beating.run(for_ever())
        with pytest.raises(CancelledError):
            beating.run(for_ever())  # and whatever would run next
        with pytest.raises(CancelledError):
            beating.check()


def test_a_lost_lease_interrupts_whatever_runs(home: Home, job: Job) -> None:
    with heartbeat(home, job) as beating:
        leases.finish(home.database, job.job_id, "me", "failed")
        with pytest.raises(LeaseLost):
            beating.run(for_ever())


def test_a_job_table_away_for_a_whole_lease_is_a_lost_lease(home: Home, job: Job) -> None:
    # While this transaction is open nobody else can write.
    with heartbeat(home, job, lease_s=1.0) as beating, home.database.begin(), pytest.raises(LeaseLost):
        beating.run(for_ever())


def test_a_worker_that_stops_interrupts_whatever_runs(home: Home, job: Job) -> None:
    with heartbeat(home, job) as beating:
        threading.Timer(0.1, beating.stop, [WorkerStops("stop")]).start()
        with pytest.raises(WorkerStops):
            beating.run(for_ever())


def test_what_runs_to_its_end_gives_its_result_and_its_errors(home: Home, job: Job) -> None:
    async def answer() -> int:
        return 42

    async def fail() -> None:
        raise UserError("no")

    with heartbeat(home, job) as beating:
        assert beating.run(answer()) == 42
        with pytest.raises(UserError, match="no"):
            beating.run(fail())


def test_beats_carry_the_progress(home: Home, job: Job) -> None:
    progress = Progress(phase="measuring", arm="a", at="2026-11-21T04:00:00+00:00")
    with heartbeat(home, job) as beating:
        beating.watch(lambda: progress)
        until(lambda: home.job(job.job_id).progress == progress, "a beat")
