"""Full disks, worker names, digests, heartbeats: small parts without a test file of their own."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from jobs import leases, queue
from jobs.leases import LeaseLost
from jobs.table import Job, Progress
from lab.errors import CancelledError, UserError
from tests.workers.homes import Home, until
from workers.file_digests import weights_digest
from workers.heartbeat import Heartbeat, WorkerStops
from workers.run_recorder import disk_sentence
from workers.worker import Worker, is_dead, worker_name


def test_a_full_disk_is_one_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    sentence = disk_sentence(tmp_path, OSError(errno.ENOSPC, "No space left on device"))
    assert sentence == f"the disk of {tmp_path} is full: free some space, then retry the job"


def test_bundles_that_cannot_be_written_fail_the_job_with_a_sentence_and_a_retry_goes_on(home: Home) -> None:
    home.settings.bundles.rmdir()
    home.settings.bundles.write_text("in the way")
    job_id = home.submit()
    Worker(home.settings).work()
    job = home.job(job_id)
    assert job.state == "failed"
    assert f"{home.settings.bundles}" in (job.error or "")
    assert "cannot be written" in (job.error or "")
    assert job.progress is not None
    assert job.progress.runs_done == 0
    home.settings.bundles.unlink()
    queue.retry(home.database, job_id)
    Worker(home.settings).work()
    assert home.job(job_id).state == "done"
    assert len(home.runs()) == 4


def test_a_worker_knows_its_dead_neighbours_from_the_living_and_from_strangers() -> None:
    code = "from workers.worker import worker_name; print(worker_name(), flush=True); input()"
    neighbour = subprocess.Popen((sys.executable, "-c", code), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert neighbour.stdout is not None
    name = neighbour.stdout.readline().strip()
    assert not is_dead(name)
    neighbour.communicate("\n")
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
    claimed = leases.claim(home.database, "me", 30.0)
    assert claimed is not None
    return claimed


def heartbeat(home: Home, job: Job, lease_s: float = 30.0) -> Heartbeat:
    return Heartbeat(home.database, job, "me", lease_s)


async def for_ever() -> None:
    await asyncio.Event().wait()


def test_a_cancelled_job_interrupts_whatever_runs(home: Home, job: Job) -> None:
    with heartbeat(home, job) as beating:
        queue.cancel(home.database, job.job_id)
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


def test_a_job_table_that_stays_away_for_a_whole_lease_is_a_lost_lease(home: Home, job: Job) -> None:
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
