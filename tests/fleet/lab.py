"""A lab of several hosts: two workers, an ingester and a page, each a real process, over links that can be cut."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from host.ports import free_port
from host.settings import Settings
from jobs import queue
from jobs.fleet import hosts
from jobs.fleet.worker_registry import list_workers
from jobs.table import FINISHED, Job
from lab.errors import QueryError
from tests import processes
from tests.fleet.network import SERVICES, Network, new_network
from tests.fleet.services import Services, running_services
from tests.processes import REPOSITORY
from tests.warehouse.asking import ask
from tests.workers.homes import Home, engine_processes, new_home, until
from warehouse.app_db.engine import DATABASE_ERRORS
from warehouse.app_db.stored_objects import newer_than
from warehouse.bundles.pending import pending_paths
from warehouse.bundles.run_bundle import find_bundles
from warehouse.bundles.store import ObjectStore
from warehouse.migrate import migrate
from workers.run_recorder import lost_bundles

WORKERS = ("w1", "w2")
HOSTS = (*WORKERS, "ingester", "page")
#: Two arms under two loads, twice: eight runs of less than a second each, in two blocks.
RUNS, TRIES = 8, 10
STUDY: dict[str, object] = {
    "arms": [{"name": "plain", "baseline": True}, {"name": "other"}],
    "repeats": 2,
    "engine_flags": {"token_s": 0.015, "start_s": 0.3},
}
_MODULES = {"ingester": "warehouse.ingest.service", "page": "webapp"}


class TooLateError(Exception):
    """A busy machine has looked for a moment of a job when it had passed."""


@dataclass
class Fleet:
    """`home` is that of the page and the ingester, reached by this process without a link."""

    network: Network
    services: Services
    home: Home
    lease_s: float
    database: str
    started: dict[str, processes.Started] = field(default_factory=dict)

    def start(self, host: str, code: Path = REPOSITORY, module: str | None = None) -> None:
        """Start the process of a host, perhaps of another release: from its own folder of code."""
        module = module or _MODULES.get(host, "workers.celery_app")
        environment = self.environment(host) | {"PYTHONPATH": str(code)}
        with self.network.inside(host):
            self.started[host] = processes.start(
                "tests.fleet.named", host, module, environment=environment, folder=code, output=self.log(host)
            )

    def stop(self, host: str) -> None:
        """As by kill -9."""
        process = self.started.pop(host)
        process.kill()
        process.wait()

    def environment(self, host: str) -> dict[str, str]:
        ways = {service: self.network.way(host, service, self.services.port_of(service)) for service in SERVICES}
        address = {service: f"{ip}:{port}" for service, (ip, port) in ways.items()}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("DRAFTHOUSE_", "AWS_"))}
        settings = {
            "HOME": self.home_of(host).home,
            "DATABASE_URL": f"postgresql+psycopg://postgres@{address['database']}/{self.database}",
            "BROKER_URL": f"redis://{address['broker']}/0",
            "BUNDLES": self.services.store.url,
            "ENGINES_FILE": self.home.settings.engines_file,
            "LEASE_S": self.lease_s,
            "LEAST_FREE_MIB": 1,
            "INGEST_EVERY_S": 0.2,
            "WEB_PORT": self.home.settings.web_port,
            "WORKERS_ELSEWHERE": host not in WORKERS,
        }
        ours = {f"DRAFTHOUSE_{name}": str(value) for name, value in settings.items()}
        store = self.services.store.variables | {"AWS_ENDPOINT_URL": f"http://{address['store']}"}
        return inherited | ours | store | {"HOME_OF_TEST": str(self.home.folder)}

    def home_of(self, host: str) -> Settings:
        if host not in WORKERS:
            return self.home.settings
        return self.home.settings.model_copy(update={"home": self.home.folder / host})

    def log(self, host: str) -> Path:
        return self.home.folder / f"{host}.log"

    def submit(self, **changes: object) -> str:
        return self.home.submit(**{**STUDY, **changes})

    def job(self, job_id: str) -> Job:
        """Wait for an answer of the database, which may be away."""
        while True:
            with contextlib.suppress(*DATABASE_ERRORS):
                return self.home.job(job_id)
            time.sleep(0.05)

    def bundles(self, host: str, job_id: str) -> int:
        folder = self.home_of(host).bundles / job_id
        return len(list(folder.iterdir())) if folder.exists() else 0

    def host_at(self, job_id: str, moment: str) -> str:
        """Wait for the moment of the job, and return the host that has it."""
        state: dict[str, Job] = {}

        def is_there() -> bool:
            state["job"] = job = self.job(job_id)
            if job.state in FINISHED:
                raise TooLateError(f"it ended before the moment {moment!r}: {job.error}")
            return job.state == "running" and _MOMENTS[moment](job)

        _soon(is_there, moment)
        host = (state["job"].worker or "").partition("/")[0]
        if moment == "publishing":
            before = self.bundles(host, job_id)
            _soon(lambda: self.bundles(host, job_id) > before or self.job(job_id).state in FINISHED, "another bundle")
            if self.bundles(host, job_id) == before:
                raise TooLateError("its last bundle was written before")
        return host

    def present(self, host: str) -> bool:
        return any(it.host == host and not it.is_away() and it.queue for it in list_workers(self.home.database))

    def assert_whole(self, job_id: str, runs: int = RUNS, **_: object) -> str:
        """Wait until each run is there once: as an object, as its row, in the warehouse; and nobody is to blame.
        Return what happened to the job.
        """
        until(lambda: self.job(job_id).state in FINISHED, "the job ends")
        job = self.job(job_id)
        assert (job.state, job.error) == ("done", None), self.events(job_id)
        settings, database = self.home.settings, self.home.database
        until(lambda: self.measured(job_id) == runs, "all runs are in the warehouse")
        counts = (
            "count(*), count(distinct run_id), count(distinct (arm, load_id, repeat)), count(*) filter (error is null)"
        )
        assert ask(settings, f"select {counts} from runs where job_id = '{job_id}'") == [(runs,) * 4]
        until(lambda: not any(pending_paths(self.home_of(host).bundles) for host in WORKERS), "all is uploaded")
        assert settings.bundles_url is not None
        objects = [path for path in ObjectStore(settings.bundles_url).paths(job_id) if "/" in path]
        rows = [row.path for row in newer_than(database, 0) if row.job_id == job_id and "/" in row.path]
        assert sorted(objects) == sorted(rows)
        assert len(set(rows)) == len(rows) == runs
        assert hosts.set_aside_hosts(database) == []
        for host in self.started:
            assert self.started[host].poll() is None, (host, self.log(host).read_text()[-3000:])
        kinds = Counter(event.kind for event in queue.events(database, job_id))
        by = ask(settings, f"select host, count(*) from runs where job_id = '{job_id}' group by all order by all")
        lost = sum(len(list(find_bundles(lost_bundles(self.home_of(host).bundles, job.lease)))) for host in WORKERS)
        again = ", ".join(f"{kind} {kinds[kind]}x" for kind in ("requeued", "released") if kinds[kind])
        return f"{' '.join(f'{host}:{count}' for host, count in by)}{f'; {again}' if again else ''}" + (
            f"; {lost} kept as evidence" if lost else ""
        )

    def measured(self, job_id: str) -> int:
        with contextlib.suppress(QueryError):
            return int(ask(self.home.settings, f"select count(*) from runs where job_id = '{job_id}'")[0][0])
        return 0

    def events(self, job_id: str) -> list[tuple[str, str]]:
        return [(event.kind, event.detail) for event in queue.events(self.home.database, job_id)]

    def page_answers(self, path: str = "/readyz", within_s: float = 30.0) -> int | None:
        """Return the status of the page, as its own host sees it; None if it does not answer."""
        with self.network.inside("page"), contextlib.suppress(OSError):
            address = f"http://127.0.0.1:{self.home.settings.web_port}{path}"
            try:
                with urllib.request.urlopen(address, timeout=within_s) as answer:
                    return int(answer.status)
            except urllib.error.HTTPError as refused:
                with refused:
                    return refused.code
        return None


def _soon(condition: Callable[[], object], description: str) -> None:
    """Wait for a moment that may last for milliseconds."""
    give_up_s = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < give_up_s, description
        time.sleep(0.02)


def _phase(job: Job, name: str) -> bool:
    return job.progress is not None and job.progress.phase == name


def _done(job: Job) -> int:
    return 0 if job.progress is None else job.progress.runs_done


_MOMENTS: Mapping[str, Callable[[Job], bool]] = {
    "claim": lambda _job: True,
    "start": lambda job: _phase(job, "starting engine") and _done(job) > 0,
    "measuring": lambda job: _phase(job, "measuring") and _done(job) > 0,
    "publishing": lambda job: _phase(job, "measuring") and _done(job) >= RUNS - 2,
}


@contextlib.contextmanager
def new_fleet(
    folder: Path,
    migrated: Path,
    lease_s: float,
    *started: str,
    network: Callable[[Sequence[str]], Network] = new_network,
) -> Iterator[Fleet]:
    """A fleet with these hosts at work. The calling thread is on the services' host meanwhile."""
    with contextlib.ExitStack() as held:
        links = held.enter_context(network(HOSTS))
        services = held.enter_context(running_services(links, folder))
        patch = held.enter_context(pytest.MonkeyPatch.context())
        for name, value in services.store.variables.items():
            patch.setenv(name, value)
        database = services.new_database()
        url = services.server.url.format(name=database)
        migrate(Settings(home=folder / "once", database_url=url))
        settings = {"database_url": url, "broker_url": services.broker.url, "bundles": services.store.url}
        home = held.enter_context(
            new_home(folder, migrated, **settings, web_port=free_port(), lease_s=lease_s, ingest_every_s=0.2)
        )
        for host in WORKERS:
            (folder / host).mkdir(mode=0o700)
            shutil.copy(home.settings.home / "policy.toml", folder / host)
        fleet = Fleet(links, services, home, lease_s, database)
        held.callback(_end, fleet)
        for host in started:
            fleet.start(host)
        until(lambda: all(fleet.present(host) for host in started if host in WORKERS), "the workers are there")
        if "page" in started:
            until(lambda: fleet.page_answers("/healthz") == 200, "the page is there")
        yield fleet


def _end(fleet: Fleet) -> None:
    for host in list(fleet.started):
        fleet.stop(host)
    psutil.wait_procs(engine_processes(fleet.home.folder), timeout=600)


@dataclass(frozen=True)
class Cut:
    """A link that is cut at a moment of a job, for a while or for good: until the job has ended without it."""

    link: str  # `worker-database`
    seconds: float | None
    moment: str

    def __str__(self) -> str:
        return f"{self.link} {'for good' if self.seconds is None else f'{self.seconds:g} s'} {self.moment}"


def survive(fleet: Fleet, cut: Cut) -> str:
    """Submit a study, cut the link at the moment, and return what happened once everything is whole again."""
    who, service = cut.link.split("-")
    last_runs_take_seconds = {"engine_flags": {"token_s": 0.1}} if cut.moment == "publishing" else {}
    for _ in range(TRIES):
        job_id = fleet.submit(name=str(cut), **last_runs_take_seconds)
        with contextlib.suppress(TooLateError):
            its = fleet.host_at(job_id, cut.moment)
            break
        fleet.assert_whole(job_id)
    host = its if who == "worker" else who
    fleet.network.cut(host, service)
    began_s = time.monotonic()
    try:
        if cut.seconds is None:
            until(lambda: fleet.job(job_id).state in FINISHED, "the job ends although a link is cut")
        else:
            time.sleep(cut.seconds)
    finally:
        fleet.network.mend(host, service)
    what = fleet.assert_whole(job_id)
    took_s = time.monotonic() - began_s
    if who == "worker":
        until(lambda: fleet.present(host), "the host takes part again")
    if who == "page":
        until(lambda: fleet.page_answers() == 200, "the page answers again")
    return f"cut {host}-{service}; whole after {took_s:.0f} s; {what}"
