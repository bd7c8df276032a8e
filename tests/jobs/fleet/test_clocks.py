"""Hosts whose clocks are off: what is stored goes by the database's clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from jobs import queue
from jobs.fleet import leases
from jobs.fleet.worker_registry import list_workers, register_worker, wrong_clocks
from tests.workers.homes import Home
from warehouse.app_db.clock import database_now
from workers.worker import Worker


def database_time(home: Home) -> datetime:
    with home.database.connect() as connection:
        return database_now(connection)


@pytest.mark.parametrize("behind_s", [-600.0, 600.0])
def test_a_jobs_moments_go_by_the_databases_clock(
    either_home: Home, monkeypatch: pytest.MonkeyPatch, behind_s: float
) -> None:
    home, right_s = either_home, time.time
    register_worker(home.database, "w1/1", host="w1", hardware="x", gpus=0, is_dead=lambda _: False)
    began = database_time(home)
    job_id = home.submit()
    monkeypatch.setattr("time.time", lambda: right_s() - behind_s)
    job = leases.claim(home.database, "w1/1", 600.0)
    assert job is not None
    assert job.clock_behind_s == pytest.approx(behind_s, abs=60)
    leases.finish(home.database, job_id, "w1/1", "done")
    monkeypatch.undo()
    ended = home.job(job_id)
    assert ended.started_at is not None
    assert ended.finished_at is not None
    moments = [began, ended.submitted_at, *(event.at for event in queue.events(home.database, job_id)[:1])]
    moments += [ended.started_at, ended.finished_at, database_time(home)]
    assert moments == sorted(moments)
    where = "behind" if behind_s > 0 else "ahead of"
    (sentence,) = wrong_clocks(list_workers(home.database))
    assert sentence.startswith("The clock of w1 is ")
    assert f" s {where} the database's" in sentence


def test_a_runs_start_is_corrected_by_what_its_clock_is_off(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "now_and_behind_s", lambda connection: (database_now(connection), 7200.0))
    job_id = home.submit(arms=[{"name": "plain"}], loads=[{"max_concurrency": 1, "num_prompts": 4}])
    Worker(home.settings).work()
    (run,) = home.runs()
    assert run.circumstances.clock_behind_s == 7200.0
    started_at = home.job(job_id).started_at
    assert started_at is not None
    after_s = (datetime.fromisoformat(run.started_at) - started_at).total_seconds()
    assert 7200 < after_s < 7200 + 1800
    assert datetime.fromisoformat(run.started_at).tzinfo is UTC or run.started_at.endswith("+00:00")
    assert run.lease == 1
