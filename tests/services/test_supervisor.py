"""`drafthouse up`, as a user starts it."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psutil
import pytest

from access.web import start_token
from jobs.fleet.worker_registry import list_workers
from tests.cli.homes import DRAFTHOUSE, REPOSITORY, Home, new_home, services_of, up
from tests.processes import is_gone
from tests.workers.homes import until
from warehouse.app_db.engine import open_engine

pytestmark = pytest.mark.engine

MEMORY_LIMIT_BYTES = 700 * 10**6


@pytest.fixture(scope="module", autouse=True)
def _without_engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A worker asks the engines of its host what they can do; here it finds none to ask."""
    engines = tmp_path_factory.mktemp("no") / "engines.toml"
    engines.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAFTHOUSE_ENGINES_FILE", str(engines))
        yield


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return new_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def earlier_token(home: Home) -> str:
    """Of the start before."""
    return start_token.renew(home.folder / "web-token")


@pytest.fixture(scope="module")
def running(home: Home, earlier_token: str) -> Iterator[subprocess.Popen[str]]:
    assert earlier_token
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DRAFTHOUSE_WEB_LOGIN", "token")
        with up(home) as process:
            until(lambda: "ready" in worker_log(home), "the worker is ready")
            yield process


def worker_log(home: Home) -> str:
    return (home.folder / "logs" / "worker.log").read_text(encoding="utf-8")


def service(running: subprocess.Popen[str], word: str) -> psutil.Process:
    return next(p for p in services_of(running)[1:] if word in " ".join(p.cmdline()))


def test_all_services_together_stay_under_700_megabytes(running: subprocess.Popen[str]) -> None:
    shares = {" ".join(p.cmdline()[-3:]): p.memory_full_info().pss for p in services_of(running)}
    assert sum(shares.values()) < MEMORY_LIMIT_BYTES, shares


def test_the_kernel_would_end_page_and_ingester_before_a_worker(running: subprocess.Popen[str]) -> None:
    own = Path("/proc/self/oom_score_adj").read_text().strip()
    words = ("webapp", "warehouse.ingest.service", "workers.celery_app")

    def scores() -> list[str]:
        return [Path(f"/proc/{service(running, word).pid}/oom_score_adj").read_text().strip() for word in words]

    until(lambda: scores() == ["500", "500", own], "each has imported what it needs, and set its own")


def test_every_service_listens_on_loopback_only(running: subprocess.Popen[str]) -> None:
    listening = {
        connection.laddr.ip
        for process in services_of(running)
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_an_empty_warehouse_can_be_asked_by_any_duckdb(home: Home, running: subprocess.Popen[str]) -> None:
    with duckdb.connect(str(home.folder / "warehouse.duckdb"), read_only=True) as connection:
        assert connection.execute("select count(*) from results where origin = 'measured'").fetchall() == [(0,)]


@pytest.mark.parametrize("word", ["warehouse.ingest.service", "workers.celery_app", "webapp", "valkey"])
def test_a_killed_service_is_started_again(running: subprocess.Popen[str], word: str) -> None:
    before = service(running, word)
    before.kill()

    def back() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):  # one that has just ended
            return any(p.pid != before.pid and word in " ".join(p.cmdline()) for p in services_of(running)[1:])
        return False

    until(back, "it is started again")


def test_a_second_one_in_the_same_home_is_refused(home: Home, running: subprocess.Popen[str]) -> None:
    second = home.ask("up")
    assert second.returncode == 2
    assert "already up" in second.stderr
    assert str(running.pid) in second.stderr


def test_a_taken_port_is_refused_with_what_to_do(tmp_path: Path) -> None:
    taken = new_home(tmp_path / "home")
    with socket.create_server(("127.0.0.1", taken.port)):
        refused = taken.ask("up")
    assert refused.returncode == 2
    assert f"cannot listen on 127.0.0.1:{taken.port} (Address already in use)" in refused.stderr
    assert "DRAFTHOUSE_WEB_PORT" in refused.stderr


def test_a_home_that_cannot_be_written_is_refused_with_what_to_do() -> None:
    refused = new_home(Path("/proc/drafthouse")).ask("up")
    assert refused.returncode == 2
    assert "cannot be written" in refused.stderr
    assert "Traceback" not in refused.stderr


def opened(home: Home, token: str) -> str:
    """Where the page leads a browser that comes with this token."""
    connection = http.client.HTTPConnection("127.0.0.1", home.port, timeout=600)
    connection.request("GET", f"/?token={token}")
    with contextlib.closing(connection):
        return str(connection.getresponse().headers["Location"])


def answers(home: Home) -> bool:
    with contextlib.suppress(ConnectionError):
        return bool(opened(home, "none"))
    return False


def test_a_start_has_a_token_of_its_own(home: Home, running: subprocess.Popen[str], earlier_token: str) -> None:
    assert running.poll() is None
    until(lambda: answers(home), "the page answers")  # it may have been killed just now
    assert opened(home, earlier_token) == "/login?next=%2F"
    assert opened(home, start_token.read(home.folder / "web-token")) == "/"


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor has one slot")
def test_a_host_without_page_runs_the_workers_of_all_its_slots(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    ours = {"DRAFTHOUSE_SLOTS": "2", "DRAFTHOUSE_BROKER_URL": "redis://127.0.0.1:1/0"}  # nothing answers there
    command, output = (DRAFTHOUSE, "worker"), tmp_path / "output"
    with output.open("w") as log:
        host = subprocess.Popen(command, cwd=REPOSITORY, env=home.environment | ours, stdout=log, stderr=log)
    try:
        until(lambda: "2 workers are up; their logs are " in output.read_text(), "both workers are started")
        with open_engine(f"sqlite:///{home.folder / 'app.sqlite'}") as database:
            until(lambda: len(list_workers(database)) == 2, "both workers are there")
            assert sorted(worker.slot_number for worker in list_workers(database)) == [1, 2]
        started = psutil.Process(host.pid).children(recursive=True)
    finally:
        host.terminate()
        status = host.wait(600)
    assert (status, [process for process in started if not is_gone(process)]) == (0, [])
