"""PostgreSQL, Valkey and the object store restarted, full and slow while a study runs."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import redis

from jobs.table import FINISHED
from tests.fleet.lab import HOSTS, Fleet, new_fleet
from tests.workers.homes import until

pytestmark = [pytest.mark.fleet, pytest.mark.engine]
Fault = Callable[[Fleet], contextlib.AbstractContextManager[None]]


@pytest.fixture(scope="module")
def fleet(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with new_fleet(tmp_path_factory.mktemp("fleet"), migrated, 20.0, *HOSTS) as it:
        yield it


def database_stopped(number: int) -> Fault:
    @contextlib.contextmanager
    def fault(fleet: Fleet) -> Iterator[None]:
        fleet.services.postgres.stop(number)
        yield
        fleet.services.server.start()

    return fault


@contextlib.contextmanager
def database_killed(fleet: Fleet) -> Iterator[None]:
    fleet.services.server.kill()
    yield
    fleet.services.server.start()


@contextlib.contextmanager
def database_without_connections(fleet: Fleet) -> Iterator[None]:
    fleet.home.database.dispose()
    with fleet.services.server.without_a_free_connection():
        yield


@contextlib.contextmanager
def database_disk_full(fleet: Fleet) -> Iterator[None]:
    """It may end by that: then its administrator makes room and starts it again."""
    postgres = fleet.services.postgres
    if not postgres.has_own_disk:
        pytest.skip("only root makes a disk")
    with postgres.full_disk():
        yield
    if postgres.has_ended():
        fleet.services.server.start()


def stutters(stop: Callable[[], object], go: Callable[[], object]) -> contextlib.AbstractContextManager[None]:
    """Let something work for a tenth of the time."""

    @contextlib.contextmanager
    def fault() -> Iterator[None]:
        over = threading.Event()

        def stutter() -> None:
            while not over.is_set():
                stop()
                over.wait(0.45)
                go()
                over.wait(0.05)

        thread = threading.Thread(target=stutter)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    return fault()


def database_slow(fleet: Fleet) -> contextlib.AbstractContextManager[None]:
    return stutters(fleet.services.server.fall_silent, fleet.services.server.speak_again)


@contextlib.contextmanager
def broker_restarted(fleet: Fleet) -> Iterator[None]:
    """Without what it held."""
    fleet.services.broker.stop()
    yield
    fleet.services.broker.start()


@contextlib.contextmanager
def broker_with(fleet: Fleet, **limits: int) -> Iterator[None]:
    with redis.Redis.from_url(fleet.services.broker.url) as client:
        before = {name: client.config_get(name)[name] for name in limits}
        for name, limit in limits.items():
            client.config_set(name, limit)
        client.client_kill_filter(_type="normal", skipme=True)
        yield
        for name, value in before.items():
            client.config_set(name, value)


def broker_without_connections(fleet: Fleet) -> contextlib.AbstractContextManager[None]:
    return broker_with(fleet, maxclients=1)


def broker_without_memory(fleet: Fleet) -> contextlib.AbstractContextManager[None]:
    return broker_with(fleet, maxmemory=1)


def broker_slow(fleet: Fleet) -> contextlib.AbstractContextManager[None]:
    process = psutil.Process(fleet.services.broker.pid)
    return stutters(process.suspend, process.resume)


def store_is(mode: str) -> Fault:
    """As the proxy before it names it."""

    @contextlib.contextmanager
    def fault(fleet: Fleet) -> Iterator[None]:
        fleet.services.store.behave(mode)
        yield
        fleet.services.store.behave("ok")

    return fault


FAULTS: dict[str, tuple[Fault, float | None]] = {
    "database restarted (fast), 8 s": (database_stopped(signal.SIGINT), 8.0),
    "database restarted (immediate), 8 s": (database_stopped(signal.SIGQUIT), 8.0),
    "database killed, 45 s": (database_killed, 45.0),
    "database without a free connection, 25 s": (database_without_connections, 25.0),
    "database disk full, 15 s": (database_disk_full, 15.0),
    "database slow": (database_slow, None),
    "broker restarted empty, 8 s": (broker_restarted, 8.0),
    "broker away": (broker_restarted, None),
    "broker without a free connection": (broker_without_connections, None),
    "broker without memory": (broker_without_memory, None),
    "broker slow": (broker_slow, None),
    "store closes connections, 15 s": (store_is("cut"), 15.0),
    "store loses answers, 15 s": (store_is("lost"), 15.0),
    "store 503": (store_is("503"), None),
    "store full (507)": (store_is("507"), None),
    "store refuses (403)": (store_is("403"), None),
    "store slow": (store_is("late"), None),
}
MOMENTS = ("start", "measuring", "publishing")


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", FAULTS)
def test_a_service_that_is_away_loses_doubles_and_fails_nothing(
    fleet: Fleet, name: str, moment: str, record_property: Callable[[str, object], None]
) -> None:
    fault, seconds = FAULTS[name]
    if moment == "start" and not name.startswith("database") and seconds is None:
        pytest.skip("as at the moment after it: it is away to the end")
    job_id = fleet.submit(name=f"{name} {moment}")
    fleet.host_at(job_id, moment)
    began_s = time.monotonic()
    with fault(fleet):
        if seconds is None:
            until(lambda: fleet.job(job_id).state in FINISHED, "the job ends meanwhile", 300)
        else:
            time.sleep(seconds)
    what = fleet.assert_whole(job_id)
    record_property("fleet", f"{name} {moment}: whole after {time.monotonic() - began_s:.0f} s; {what}")
