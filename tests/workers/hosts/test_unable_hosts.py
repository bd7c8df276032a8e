"""Hosts that lack an engine, cannot store a run, or are older than their database: they fail no job."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from jobs import queue
from jobs.engines.capabilities import all_capabilities
from jobs.fleet import leases
from jobs.fleet.worker_registry import list_workers, register_worker, store_engines, why_jobs_wait
from services.doctor import examine
from tests.actors import ADMIN
from tests.workers.homes import ENGINES_TOML, Home, celery_worker, new_home, until
from tests.workers.valkey import Broker

PLAIN = [{"name": "plain"}]
LOADS = [{"max_concurrency": 1, "num_prompts": 4}]
#: Nobody makes a folder in there, not even root.
UNWRITABLE = Path("/sys")


def engines_toml(*names: str) -> str:
    """The stand-in engine by these names."""
    table = ENGINES_TOML[ENGINES_TOML.index("[vllm]") :].format(folder="")
    return "".join(table.replace("[vllm", f"[{name}") for name in names)


def submitted_for(home: Home, engine: str) -> str:
    return home.submit(arms=[{"name": "plain", "engine": engine}], loads=LOADS)


def waits_for(home: Home) -> str:
    return "; ".join(worker.waits_for or "" for worker in list_workers(home.database))


def ended(home: Home, job_id: str, state: str = "done") -> None:
    until(lambda: home.job(job_id).state == state, f"the job is {state}")


def begun(home: Home) -> tuple[str, Path]:
    """A study of two runs that a worker has begun, and the file for which its engines wait."""
    may_start = home.folder / "may start"
    job_id = home.submit(arms=PLAIN, loads=LOADS, engine_flags={"await_file": str(may_start)}, repeats=2)
    until(lambda: home.job(job_id).progress is not None, "it has begun")
    return job_id, may_start


@pytest.fixture
def two_engines(home: Home) -> Home:
    home.settings.engines_file.write_text(engines_toml("vllm", "other"))
    return home


def test_a_host_claims_only_studies_whose_engines_it_has_in_turn(two_engines: Home) -> None:
    home, here = two_engines, dict.fromkeys(["vllm", "endpoint"])
    foreign = [submitted_for(home, "other") for _ in range(45)]  # more than are looked at once
    both = home.submit(arms=[{"name": "a", "baseline": True}, {"name": "b", "engine": "other"}])
    own = [submitted_for(home, "vllm") for _ in range(2)]
    claimed = [leases.claim(home.database, f"me{number}/1", 30.0, engines=here) for number in range(3)]
    assert [job and job.job_id for job in claimed] == [*own, None]
    here = dict.fromkeys(["vllm", "other"])  # engines.toml has it by now
    claimed = [leases.claim(home.database, f"me{number}/1", 30.0, engines=here) for number in range(3, 6)]
    assert [job and job.job_id for job in claimed] == foreign[:3]
    assert home.job(both).state == "queued"


def test_a_spread_study_makes_no_room_for_an_impossible_one(two_engines: Home) -> None:
    home, here = two_engines, {"vllm": None}
    home.submit(spread=True, alone=False)
    job = leases.claim(home.database, "me/1", 30.0, engines=here)
    assert job is not None
    foreign = home.submit(arms=[{"name": "plain", "engine": "other"}], alone=False)
    assert not leases.another_waits(home.database, job, "", has_gpus=True, engines=here)
    assert leases.another_waits(home.database, job, "", has_gpus=True)
    queue.cancel(home.database, foreign, actor=ADMIN)


@pytest.mark.usefixtures("workers_stay")
def test_a_job_without_a_host_for_its_engine_says_so(two_engines: Home) -> None:
    home = two_engines
    job_id = submitted_for(home, "other")
    register_worker(home.database, "h/1", host="h", hardware="x", gpus=0, is_dead=lambda _: False)
    jobs = [home.job(job_id)]
    assert why_jobs_wait(home.database, jobs) == {}  # it has not said yet what it has
    has = [engine for engine in all_capabilities(home.settings) if engine.engine != "other"]
    store_engines(home.database, "h/1", has)
    assert why_jobs_wait(home.database, jobs) == {job_id: "no worker has the engine 'other'"}
    found = next(finding for finding in examine(home.settings) if finding.what == "waiting jobs")
    assert found.found == f"{job_id}: no worker has the engine 'other'"


@pytest.mark.engine
def test_a_worker_takes_a_waiting_study_once_engines_toml_has_its_engine(woken_home: Home) -> None:
    home = woken_home
    home.settings.engines_file.write_text(engines_toml("vllm", "other"))
    job_id = submitted_for(home, "other")
    home.settings.engines_file.write_text(engines_toml("vllm"))
    with celery_worker(home):
        until(lambda: why_jobs_wait(home.database, [home.job(job_id)]), "the worker has said what it has")
        assert home.event_kinds(job_id) == ["submitted"]
        home.settings.engines_file.write_text(engines_toml("vllm", "other"))
        ended(home, job_id)
        until(lambda: "other" in list_workers(home.database)[0].engine_names, "the new engine is stored")


@pytest.mark.engine
def test_a_worker_older_than_its_database_ends_its_job_and_claims_none(woken_home: Home) -> None:
    home = woken_home
    with celery_worker(home) as worker:
        first, may_start = begun(home)
        second = home.submit(arms=PLAIN, loads=LOADS)
        with home.database.begin() as connection:
            connection.execute(sa.text("UPDATE alembic_version SET version_num = 'app_9999'"))
        may_start.touch()
        ended(home, first)
        until(lambda: "written by a newer Drafthouse (revision app_9999)" in waits_for(home), "it says why it waits")
        assert home.event_kinds(second) == ["submitted"]
        lost = leases.claim(home.database, "elsewhere/1/x/1", 0.0)  # by a worker of the newer release
        until(lambda: not list_workers(home.database)[0].is_away(), "it is there")
        assert lost is not None
        assert home.job(second).state == "running"  # and is not put back by the older one
        assert worker.poll() is None


@pytest.fixture
def moving_home(tmp_path: Path, migrated: Path, broker: Broker) -> Iterator[Home]:
    """Its folder of bundles is a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "bundles").symlink_to(tmp_path / "real")
    with new_home(tmp_path, migrated, broker_url=broker.url, bundles_dir=tmp_path / "bundles") as it:
        yield it
        until(lambda: not it.engine_processes(), "the engines of a worker killed at the end of a test are gone")


def tries(home: Home) -> int:
    """How often a worker has tried in vain to write a bundle."""
    return len(re.findall("trying again for .* s: writing a bundle failed", (home.folder / "worker.log").read_text()))


@contextlib.contextmanager
def worker_of(home: Home, lease_s: float) -> Iterator[None]:
    folder = str(home.settings.bundles)
    limits = {"DRAFTHOUSE_LEASE_S": f"{lease_s}", "DRAFTHOUSE_LEAST_FREE_MIB": "0"}  # nothing is free in UNWRITABLE
    with celery_worker(home, DRAFTHOUSE_BUNDLES_DIR=folder, **limits):
        yield


def link(home: Home, target: Path) -> None:
    (new := home.folder / "new").symlink_to(target)
    new.rename(home.settings.bundles)


@pytest.mark.engine
def test_a_folder_that_cannot_be_written_costs_no_run_and_holds_up_no_cancelling(moving_home: Home) -> None:
    home = moving_home
    with worker_of(home, lease_s=3600):
        job_id, may_start = begun(home)
        link(home, UNWRITABLE)
        may_start.touch()
        until(lambda: tries(home), "a write")
        link(home, home.folder / "real")
        ended(home, job_id)
        assert home.event_kinds(job_id) == ["submitted", "claimed", "done"]
        assert [run.status for run in home.runs()] == ["completed"] * 2
        link(home, UNWRITABLE)
        before = tries(home)
        job_id = home.submit(arms=PLAIN, loads=LOADS)
        until(lambda: tries(home) > before, "another write")
        queue.cancel(home.database, job_id, actor=ADMIN)
        ended(home, job_id, "cancelled")


@pytest.mark.engine
def test_a_host_that_cannot_store_runs_gives_its_job_back_and_rests(moving_home: Home) -> None:
    home = moving_home
    link(home, UNWRITABLE)
    with worker_of(home, lease_s=60):
        job_id = home.submit(arms=PLAIN, loads=LOADS, repeats=2)  # the window of the second run waits for the first one
        until(lambda: "writing a bundle failed" in waits_for(home), "the worker says why it waits")
        assert home.job(job_id).state == "queued"
        assert home.event_kinds(job_id) == ["submitted", "claimed", "released"]
        queue.cancel(home.database, job_id, actor=ADMIN)
    assert "cannot measure it: writing a bundle failed: /" in queue.events(home.database, job_id)[2].detail
