"""Hosts that cannot measure what they claim: the study waits for another one, and the queue goes on."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobs import queue
from jobs.fleet import hosts, leases
from jobs.fleet.worker_registry import list_workers
from services.doctor import examine
from tests.actors import ADMIN
from tests.workers.homes import NGRAM, Home
from warehouse.app_db import stored_objects
from warehouse.app_db.schema import hosts as hosts_table
from warehouse.bundles import uploads
from workers import worker as worker_module
from workers.engine_runtime.start_failure import is_of_host
from workers.worker import Worker

LOADS = [{"max_concurrency": 1, "num_prompts": 4}]
DRIVER = "RuntimeError: CUDA error: unknown error"


@pytest.fixture(autouse=True)
def _without_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "_REST_S", -1.0)


def submitted(home: Home, message: Path, **study: object) -> str:
    """A study whose engine ends with the message while there is one."""
    return home.submit(**{"arms": [{"name": "plain", "flags": {"fail_with": str(message)}}], "loads": LOADS} | study)


def states(home: Home, ids: list[str]) -> list[str]:
    return [home.job(job_id).state for job_id in ids]


def test_three_studies_that_its_driver_ends_set_a_host_aside(home: Home, tmp_path: Path) -> None:
    (message := tmp_path / "message").write_text(DRIVER)
    ids = [submitted(home, message) for _ in range(5)]
    worker = Worker(home.settings)
    for _ in range(4):
        worker.work()
    assert states(home, ids) == ["queued"] * 5
    assert [home.event_kinds(job_id).count("released") for job_id in ids] == [1, 1, 1, 0, 0]
    assert home.runs() == []  # what a host has spoilt is no result
    (aside,) = hosts.set_aside_hosts(home.database)
    assert f"the engine of arm 'plain' failed: {DRIVER}" in aside.sentence
    found = next(finding for finding in examine(home.settings) if finding.what == "hosts")
    assert found.found == f"{aside.host}: {aside.sentence}"
    message.unlink()
    hosts.mend(home.database, aside.host, actor=ADMIN)
    Worker(home.settings).work()
    assert states(home, ids) == ["done"] * 5
    assert hosts.set_aside_hosts(home.database) == []


def test_a_study_that_one_host_cannot_measure_is_measured_by_another(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (message := tmp_path / "message").write_text("OSError: [Errno 28] No space left on device")
    first, second = submitted(home, message), submitted(home, tmp_path / "nothing")
    Worker(home.settings).work()
    assert states(home, [first, second]) == ["queued", "done"]  # the second went before another trial of the first
    message.unlink()
    Worker(home.settings).work()
    assert home.job(first).state == "queued"  # this host is set aside
    monkeypatch.setattr("platform.node", lambda: "other")
    Worker(home.settings).work()
    assert home.job(first).state == "done"
    assert all(run.error is None for run in home.runs())


def test_a_second_arm_that_the_host_fails_keeps_the_runs_of_the_first(home: Home, tmp_path: Path) -> None:
    (message := tmp_path / "message").write_text(DRIVER)
    arms = [
        {"name": "plain", "baseline": True},
        {"name": "drafted", "speculation": NGRAM, "flags": {"fail_with": str(message)}},
    ]
    job_id = submitted(home, message, arms=arms)
    Worker(home.settings).work()
    assert [(run.arm.name, run.error) for run in home.runs()] == [("plain", None)]
    message.unlink()
    hosts.mend(home.database, hosts.set_aside_hosts(home.database)[0].host, actor=ADMIN)
    Worker(home.settings).work()
    assert home.job(job_id).state == "done"
    assert sorted(run.arm.name for run in home.runs()) == ["drafted", "plain"]


def let_time_pass(home: Home) -> None:
    with home.database.begin() as connection:
        connection.execute(hosts_table.update().values(set_aside_at=datetime(2026, 1, 1, tzinfo=UTC)))


def test_a_set_aside_host_tries_itself_and_stays_aside_without_a_disk(home: Home, tmp_path: Path) -> None:
    (message := tmp_path / "message").write_text(DRIVER)
    ids = [submitted(home, message) for _ in range(3)]
    worker = Worker(home.settings)
    worker.work()
    assert sum(home.event_kinds(job_id).count("claimed") for job_id in ids) == 3
    let_time_pass(home)
    Worker(home.settings.model_copy(update={"least_free_mib": 2**40})).work()
    (aside,) = hosts.set_aside_hosts(home.database)
    assert "needs more disk space" in aside.reason
    let_time_pass(home)
    worker.work()  # its own trial succeeds, and so it takes one study, which fails again
    assert sum(home.event_kinds(job_id).count("claimed") for job_id in ids) == 4
    assert [again.host for again in hosts.set_aside_hosts(home.database)] == [aside.host]


def test_an_engine_that_vanishes_after_the_claim_fails_no_study(home: Home) -> None:
    job_id = home.submit(loads=LOADS)
    worker = Worker(home.settings)
    worker._why_no_jobs()
    job = worker._claim()
    assert job is not None
    home.settings.engines_file.write_text("")
    worker._measure_or_fail(job)
    assert (home.job(job_id).state, home.event_kinds(job_id)) == ("queued", ["submitted", "claimed", "released"])
    assert "cannot measure it: there is no engine 'vllm' here" in queue.events(home.database, job_id)[-1].detail


def test_a_worker_says_on_its_row_that_its_host_is_set_aside(home: Home) -> None:
    worker = Worker(home.settings)
    worker.start()
    worker.stop()
    worker.join()
    for _ in range(3):
        hosts.record_failure(home.database, worker._place, "no disk")
    worker._stopping.clear()
    worker.work()
    (row,) = list_workers(home.database)
    assert re.match("it is set aside, because .*: no disk", row.waits_for or "")
    job_id = home.submit(loads=LOADS)
    assert leases.claim(home.database, "elsewhere/1", 30.0) is not None  # only this host takes none
    queue.cancel(home.database, job_id, actor=ADMIN)


@pytest.mark.parametrize(
    ("why", "is_its"),
    [
        ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", True),
        ("RuntimeError: Found no NVIDIA driver on your system", True),
        ("ImportError: libcudart.so.13: cannot open shared object file: No such file or directory", True),
        ("the engine was killed by signal 4 (SIGILL)", True),
        ("OSError: [Errno 30] Read-only file system: '/cache'", True),
        ("the engine was killed by signal 9 (SIGKILL), most likely because the host had no memory left", False),
        ("RuntimeError: CUDA error: device-side assert triggered", False),
        ("ValueError: max_model_len\nit ended; its log ends: No space left on device", False),
        ("torch.OutOfMemoryError: CUDA out of memory", False),  # others may hold it: that is looked up
    ],
)
def test_the_cause_of_an_engines_end_says_whose_fault_it_is(why: str, is_its: bool) -> None:  # noqa: FBT001
    assert is_of_host(why) is is_its


def test_runs_that_another_host_has_yet_to_upload_are_no_fault_of_this_one(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_module, "_LATE_AGAIN_AFTER_S", 600.0)
    stored = home.settings.model_copy(update={"bundles_url": f"file://{tmp_path}/store"})
    late = [home.submit(arms=[{"name": "plain"}], loads=LOADS) for _ in range(4)]
    stored_objects.announce(home.database, [f"{job_id}/run" for job_id in late])
    other = home.submit(arms=[{"name": "plain"}], loads=LOADS)
    worker = Worker(stored)
    worker.work()
    assert states(home, [*late, other]) == ["queued"] * 4 + ["done"]
    assert [home.event_kinds(job_id) for job_id in late] == [["submitted", "claimed", "released"]] * 4
    assert "has not uploaded 1 run of" in queue.events(home.database, late[0])[-1].detail
    assert hosts.set_aside_hosts(home.database) == []
    monkeypatch.setattr(uploads, "_AWAITED_FOR_S", -1.0)  # the other host did not come back
    Worker(stored).work()
    assert states(home, late) == ["done"] * 4


def test_a_host_that_gives_a_study_back_announces_what_it_has_not_uploaded(home: Home, tmp_path: Path) -> None:
    (message := tmp_path / "message").write_text(DRIVER)
    stored = home.settings.model_copy(update={"bundles_url": f"file://{tmp_path}/store"})
    arms = [{"name": "plain", "baseline": True}, {"name": "other", "flags": {"fail_with": str(message)}}]
    job_id = submitted(home, message, arms=arms)
    Worker(stored).work()
    assert home.event_kinds(job_id)[-1] == "released"
    assert [row.job_id for row in stored_objects.awaited(home.database)] == [job_id]
