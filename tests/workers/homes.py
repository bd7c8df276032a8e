"""A home for one test: migrated databases, a stand-in engine, a model folder, prompts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from host.settings import Settings
from jobs import queue
from jobs.engines.profiles import MARK
from jobs.table import Job
from lab.metrics.records import RunRecord
from lab.schedule import Outcome
from lab.study import Study
from lab.study.parsing import study_from_dict
from lab.study.plan import PlannedRun
from services.supervisor import worker_command
from tests import processes
from tests.actors import ADMIN
from warehouse.app_db.engine import open_engine
from warehouse.bundles.run_bundle import find_bundles, read_run
from warehouse.ingest.service import ingest_all
from workers.outcomes import read_outcome
from workers.worker import Worker

REPOSITORY = Path(__file__).parents[2]
STAND_IN = "tests.workers.stand_in_engine"
PATIENCE_S = 600.0  # far above what anything here takes: a shared machine may stand still for a minute
ENGINES_TOML = f"""
[absent]
kind = "vllm"
command = ["{{{{engines}}}}/absent/bin/vllm", "serve"]
[vllm]
kind = "vllm"
command = ["{sys.executable}", "-m", "{STAND_IN}"]
[vllm.environment]
PYTHONPATH = "{REPOSITORY}"
HOME_OF_TEST = "{{folder}}"
"""


@dataclass(frozen=True)
class Home:
    settings: Settings
    database: sa.Engine
    folder: Path

    @property
    def prompts(self) -> dict[str, Any]:
        """The dataset of a workload."""
        return {"dataset": str(self.folder / "prompts.jsonl")}

    def study(self, **changes: Any) -> Study:
        """Two arms, one workload, two loads, one repeat: four runs on two launches."""
        data = {
            "name": "test study",
            "target": str(self.folder / "model"),
            "arms": [{"name": "plain"}, {"name": "drafted", "speculation": NGRAM}],
            "workloads": [{"output_tokens": 8} | self.prompts],
            "loads": [{"max_concurrency": 1, "num_prompts": 4}, {"max_concurrency": 2, "num_prompts": 4}],
        }
        return study_from_dict(data | changes)

    def leased_for(self, lease_s: float) -> Home:
        """The same home, whose workers' leases end so soon."""
        return replace(self, settings=self.settings.model_copy(update={"lease_s": lease_s}))

    def submit(self, **changes: Any) -> str:
        return queue.submit(self.settings, self.study(**changes), actor=ADMIN)

    def job(self, job_id: str) -> Job:
        return queue.job(self.database, job_id)

    def runs(self) -> list[RunRecord]:
        return [read_run(folder) for folder in find_bundles(self.settings.bundles)]

    def event_kinds(self, job_id: str) -> list[str]:
        return [event.kind for event in queue.events(self.database, job_id)]

    def engine_processes(self) -> list[psutil.Process]:
        return engine_processes(self.folder)


def engine_processes(folder: Path) -> list[psutil.Process]:
    """Every process that an engine of the home in this folder has left or is running, and its guards."""

    def is_ours(process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error, OSError):
            environment = process.environ()
            return MARK in environment and environment.get("HOME_OF_TEST") == str(folder)
        return False

    return [process for process in psutil.process_iter() if is_ours(process)]


#: What a study may ask of the stand-in engine beside a real one's flags.
STAND_IN_FLAGS = [
    *(
        "token-s",
        "slots",
        "start-s",
        "await-file",
        "await-at-request",
        "await-from-start",
        "half-as-fast-on",
        "fail-to-start",
        "fail-with",
        "die-on-first-request",
        "die-at-request",
        "die-once",
    ),
    *(
        "port-taken-times",
        "stubborn-child",
        "never-idle",
        "answer-last-line",
        "counter-file",
        "no-such-flag",
        "trap",
        "count-at-the-end",
    ),
]
NGRAM = {"method": "ngram", "num_speculative_tokens": 3}


@contextlib.contextmanager
def new_home(folder: Path, migrated: Path, **settings: Any) -> Iterator[Home]:
    """`migrated`: a home with databases to copy, because making them takes a second."""
    (folder / "model").mkdir()
    (folder / "model" / "config.json").write_text("{}")
    (folder / "model" / "model.safetensors").write_bytes(b"weights")
    rows = ({"prompt": f"Prompt number {number}: count on.", "category": "count"} for number in range(64))
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "engines.toml").write_text(ENGINES_TOML.format(folder=folder))
    # A worker stops measuring with its lease, and a busy machine holds beats up: only tests of silence shorten it.
    ours = {"engines_file": folder / "engines.toml", "lease_s": 120.0}
    made = Settings(home=folder / "home", **{**ours, **settings})
    shutil.copytree(migrated, made.home)
    (made.home / "policy.toml").write_text(f"[engines.vllm]\nflags = {json.dumps(STAND_IN_FLAGS)}\n")
    with open_engine(made.app_database_url) as database:
        yield Home(made, database, folder)


@contextlib.contextmanager
def at_work(home: Home) -> Iterator[None]:
    """With a worker and an ingester in a thread, which measure whatever is submitted."""
    done = threading.Event()

    def work() -> None:
        while not done.wait(0.5):
            Worker(home.settings).work()
            ingest_all(home.settings)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def link_reference_models(home: Home) -> None:
    """Those that `make test` prepared."""
    prepared = Settings().models_dir.absolute()
    assert (prepared / "prepared").exists(), "run `make models`"
    home.settings.models_dir.symlink_to(prepared)


def worked(home: Home, **study: Any) -> Job:
    """Submit a study and let a worker in this process work until nothing is queued."""
    job_id = home.submit(**study)
    Worker(home.settings).work()
    return home.job(job_id)


@contextlib.contextmanager
def program(module: str, *arguments: str) -> Iterator[str]:
    """Run a server of the tests as a process of its own; gives the line that it prints first."""
    command = (sys.executable, "-m", module, *arguments)
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.communicate()


def until(condition: Callable[[], object], description: str, within_s: float = PATIENCE_S) -> float:
    """Wait for it; returns the seconds it took."""
    began_s = time.monotonic()
    while not condition():
        assert time.monotonic() - began_s < within_s, f"not within {within_s} s: {description}"
        time.sleep(0.05)
    return time.monotonic() - began_s


def worker_environment(home: Home) -> dict[str, str]:
    """Its settings for a process of its own; what the process starts can be told by HOME_OF_TEST."""
    settings = home.settings
    variables = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTHOUSE_")}
    variables["HOME_OF_TEST"] = str(home.folder)
    for name in ("home", "engines_file", "engines_dir", "lease_s", "broker_url", "database_url"):
        value = getattr(settings, name)
        variables |= {} if value is None else {f"DRAFTHOUSE_{name.upper()}": str(value)}
    return variables


@contextlib.contextmanager
def celery_worker(home: Home, **variables: str) -> Iterator[processes.Started]:
    """A real worker process, killed at the end if it still runs. Its log is worker.log in the test's folder."""
    _, _, module, *arguments = worker_command()
    process = processes.start(
        module,
        *arguments,
        environment=worker_environment(home) | variables,
        folder=REPOSITORY,
        output=home.folder / "worker.log",
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def outcomes(home: Home, job: Job) -> list[Outcome]:
    """What a worker that continues reads from the bundles."""
    by_start = {read_run(folder).started_at: folder for folder in find_bundles(home.settings.bundles)}
    by_start_of_run = [(by_start[start], read_run(by_start[start])) for start in sorted(by_start)]
    return [
        read_outcome(folder, PlannedRun(run.arm, run.workload, run.load, run.repeat, run.trial))
        for folder, run in by_start_of_run
        if run.job_id == job.job_id
    ]
