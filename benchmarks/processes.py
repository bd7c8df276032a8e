"""A home for a benchmark, a study measured in it, and its ingester."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from access.local import local_actor
from host.settings import ENVIRONMENT_PREFIX, Settings
from jobs.queue import job, submit
from lab.errors import EngineError
from lab.study import Study
from tests.postgresql import Server
from warehouse.app_db.engine import open_engine
from workers.worker import Worker


@contextmanager
def own_home(settings: Settings) -> Iterator[Settings]:
    """Create a temporary home for this benchmark, with the models of the real one."""
    with tempfile.TemporaryDirectory(prefix="drafthouse-bench-") as folder:
        own = settings.model_copy(
            update={"home": Path(folder), "bundles_dir": None, "bundles_url": None, "database_url": None}
        )
        own.models_dir.symlink_to(settings.models_dir.absolute())
        yield own


def measured_study(settings: Settings, study: Study) -> tuple[str, float]:
    """Measure a study in a migrated home. Return its job and the seconds. Raises EngineError if a run failed."""
    began_s = time.perf_counter()
    job_id = submit(settings, study, actor=local_actor())
    Worker(settings).work()
    took_s = time.perf_counter() - began_s
    with open_engine(settings.app_database_url) as database:
        done = job(database, job_id)
    if done.state != "done" or done.error:
        raise EngineError(f"{study.name} ended as {done.state}: {done.error}")
    return job_id, took_s


def postgres_s(server: Server) -> float:
    """Return the processor time of a server's processes, and of its sessions that have ended."""
    postmaster, *sessions = server.processes()
    total = sum(postmaster.cpu_times()[:4])  # with those of its children that have ended
    for session in sessions:
        with suppress(psutil.NoSuchProcess):
            total += sum(session.cpu_times()[:2])
    return float(total)


@contextmanager
def ingesting(settings: Settings) -> Iterator[psutil.Process]:
    """Run the home's ingester in a process of its own."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)}
    environment[f"{ENVIRONMENT_PREFIX}HOME"] = str(settings.home.absolute())
    environment[f"{ENVIRONMENT_PREFIX}DATABASE_URL"] = settings.app_database_url
    command = [sys.executable, "-m", "warehouse.ingest.service"]
    with subprocess.Popen(command, env=environment, cwd=Path(__file__).parents[1]) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()
