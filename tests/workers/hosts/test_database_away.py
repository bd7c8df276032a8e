"""A PostgreSQL that dies, falls silent or has no connection left while real workers measure."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from host.settings import Settings
from jobs import queue
from jobs.table import FINISHED
from tests.actors import ADMIN
from tests.postgresql import Server, running_server
from tests.processes import Started
from tests.workers.homes import Home, celery_worker, new_home, until
from tests.workers.valkey import Broker
from warehouse.migrate import migrate

pytestmark = pytest.mark.engine
LOADS = [{"max_concurrency": 1, "num_prompts": 4}]
LONG_ANSWERS = {"output_tokens": 100_000}  # a run takes hours


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as it:
        yield it


@contextlib.contextmanager
def home_on(server: Server, folder: Path, migrated: Path, lease_s: float) -> Iterator[Home]:
    broker = Broker(folder / "valkey")
    broker.start()
    name = f"t{uuid.uuid4().hex}"
    with server.administration() as admin:
        admin.execute(sa.text(f"CREATE DATABASE {name}"))
    database_url = server.url.format(name=name)
    migrate(Settings(home=folder / "once", database_url=database_url))
    with new_home(folder, migrated, broker_url=broker.url, database_url=database_url, lease_s=lease_s) as it:
        yield it
        until(lambda: not it.engine_processes(), "the engines of a worker killed at the end of a test are gone")
    broker.stop()


@pytest.fixture(scope="module")
def working(tmp_path_factory: pytest.TempPathFactory, migrated: Path, server: Server) -> Iterator[tuple[Home, Started]]:
    """A home and its worker, for all tests that it outlives."""
    folder = tmp_path_factory.mktemp("home")
    with home_on(server, folder, migrated, lease_s=120.0) as home, celery_worker(home) as worker:
        yield home, worker


def log(home: Home) -> str:
    return (home.folder / "worker.log").read_text()


def in_phase(home: Home, job_id: str, phase: str) -> bool:
    progress = home.job(job_id).progress
    return progress is not None and progress.phase == phase


def starting(home: Home, **study: Any) -> tuple[str, Path]:
    """A job whose first engine starts once a file is there, and the file: the second engine comes later."""
    may_start = home.folder / uuid.uuid4().hex
    flags = {"token_s": 0.05, "await_file": str(may_start)}
    job_id = home.submit(loads=LOADS, engine_flags=flags, **study)
    until(lambda: in_phase(home, job_id, "starting engine"), "the first engine's start")
    return job_id, may_start


def assert_done_without_a_break(home: Home, job_id: str, worker: Started) -> None:
    until(lambda: home.job(job_id).state in FINISHED, "the job ends")
    assert (home.job(job_id).state, home.job(job_id).error) == ("done", None)
    assert home.event_kinds(job_id) == ["submitted", "claimed", "done"]
    assert [run.status for run in home.runs() if run.job_id == job_id] == ["completed"] * 2
    assert worker.poll() is None


@pytest.mark.parametrize("study", [{}, {"arms": [{"name": "plain"}], "repeats": 2, "spread": True, "alone": False}])
def test_a_server_killed_over_an_engines_start_and_started_again_fails_nothing(
    working: tuple[Home, Started], server: Server, study: dict[str, Any]
) -> None:
    """The second engine's start asks for the submitter's role, and a study that is spread for its next block."""
    home, worker = working
    job_id, may_start = starting(home, **study)
    server.kill()
    may_start.touch()
    until(lambda: f"job {job_id} waits for the database" in log(home), "a question")
    server.start()
    assert_done_without_a_break(home, job_id, worker)


def test_a_server_without_a_free_connection_fails_nothing(working: tuple[Home, Started], server: Server) -> None:
    home, worker = working
    job_id, may_start = starting(home)
    with server.without_a_free_connection():
        may_start.touch()
        until(lambda: f"job {job_id} waits for the database" in log(home), "the second engine's turn")
    assert "too many clients already" in log(home)
    assert_done_without_a_break(home, job_id, worker)


def test_a_worker_stops_measuring_with_its_lease_though_its_database_call_hangs(
    tmp_path: Path, migrated: Path, server: Server
) -> None:
    with home_on(server, tmp_path, migrated, lease_s=60.0) as home, celery_worker(home) as worker:
        arms = [{"name": "plain", "flags": {"token_s": 0.05}}]
        job_id = home.submit(arms=arms, workloads=[LONG_ANSWERS | home.prompts])
        until(lambda: in_phase(home, job_id, "measuring"), "a run")
        server.fall_silent()
        try:
            until(lambda: not home.engine_processes(), "its engine is stopped")
            until(lambda: "the job table did not answer for 60 s" in log(home), "the worker says why")
            assert worker.poll() is None
        finally:
            server.speak_again()
        until(lambda: home.event_kinds(job_id).count("claimed") == 2, "it takes part again")
        assert home.event_kinds(job_id) == ["submitted", "claimed", "requeued", "claimed"]
        queue.cancel(home.database, job_id, actor=ADMIN)
        until(lambda: home.job(job_id).state == "cancelled", "the job is cancelled")
