"""Workers register themselves, and dead ones are removed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Self

import pytest

from jobs.engines.capabilities import Capabilities
from jobs.engines.hardware import hardware_name
from jobs.fleet import worker_registry
from jobs.fleet.worker_registry import known_engines, record_presence, register_worker, store_engines
from tests.workers.homes import Home, celery_worker, until
from warehouse.app_db.schema import workers as table

pytestmark = pytest.mark.usefixtures("workers_stay")
VLLM = Capabilities(
    engine="vllm", kind="vllm", version="0.32.0", methods=("ngram",), flags=("max-model-len",), gpus=("NVIDIA H200",)
)


def arrive(home: Home, name: str, *dead: str) -> None:
    register_worker(
        home.database, name, host="h", hardware="NVIDIA H200", gpus=1, is_dead=lambda worker: worker in dead
    )


def test_a_worker_is_there_with_what_it_told(home: Home) -> None:
    arrive(home, "one")
    (listed,) = worker_registry.list_workers(home.database)
    assert (listed.worker, listed.host, listed.hardware, listed.gpus, listed.engines) == (
        "one",
        "h",
        "NVIDIA H200",
        1,
        None,
    )
    store_engines(home.database, "one", [VLLM])
    record_presence(home.database, "one", "job-1")
    (listed,) = worker_registry.list_workers(home.database)
    assert (listed.engines, listed.job_id, listed.is_away()) == ((VLLM,), "job-1", False)
    assert known_engines(home.database) == [VLLM]


def test_a_silent_worker_is_away_after_a_while_and_still_known(home: Home) -> None:
    arrive(home, "one")
    (listed,) = worker_registry.list_workers(home.database)
    assert listed.is_away(listed.last_seen + timedelta(seconds=worker_registry.AWAY_AFTER_S + 1))


@pytest.mark.parametrize("ahead_s", [-36_000, 36_000])
def test_a_worker_with_a_wrong_clock_was_seen_a_moment_ago(
    home: Home, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    class WrongClock(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            return super().now(tz) + timedelta(seconds=ahead_s)

    with monkeypatch.context() as its_host:
        its_host.setattr(worker_registry, "datetime", WrongClock)
        arrive(home, "one")
        record_presence(home.database, "one", None)
        assert not worker_registry.list_workers(home.database)[0].is_away()  # by its own clock
    (listed,) = worker_registry.list_workers(home.database)
    assert not listed.is_away()
    assert abs((datetime.now(UTC) - listed.last_seen).total_seconds()) < worker_registry.AWAY_AFTER_S


def test_a_worker_whose_engines_another_version_described_is_listed_without_them(home: Home) -> None:
    arrive(home, "newer")
    arrive(home, "same")
    store_engines(home.database, "same", [VLLM])
    with home.database.begin() as connection:
        newer = table.update().where(table.c.worker == "newer")
        connection.execute(newer.values(engines_json='[{"a_new_field": 1}]'))
    engines = {listed.worker: listed.engines for listed in worker_registry.list_workers(home.database)}
    assert engines == {"newer": None, "same": (VLLM,)}
    assert known_engines(home.database) == [VLLM]


def test_a_new_worker_replaces_its_dead_neighbours_and_no_other(home: Home) -> None:
    for name in ("dead", "alive", "elsewhere"):
        arrive(home, name)
    arrive(home, "new", "dead")
    assert {listed.worker for listed in worker_registry.list_workers(home.database)} == {"alive", "elsewhere", "new"}


def test_who_was_not_seen_for_a_month_is_forgotten(home: Home) -> None:
    arrive(home, "old")
    with home.database.begin() as connection:
        connection.execute(table.update().values(last_seen=datetime.now(UTC) - timedelta(days=31)))
    arrive(home, "new")
    assert [listed.worker for listed in worker_registry.list_workers(home.database)] == ["new"]


def test_a_worker_registers_hardware_and_engines_and_needs_no_pandas(
    woken_home: Home,
) -> None:
    with celery_worker(woken_home) as worker:
        until(lambda: known_engines(woken_home.database), "the worker has asked its engines")
        (listed,) = worker_registry.list_workers(woken_home.database)
        assert listed.hardware == hardware_name()
        assert listed.engines is not None
        assert "vllm" in {engine.engine for engine in listed.engines}
        job_id = woken_home.submit(hardware=hardware_name()[:8].upper())
        until(lambda: woken_home.job(job_id).state == "done", "a job for this hardware is done")
        assert "pandas" not in Path(f"/proc/{worker.pid}/maps").read_text(encoding="utf-8")


def test_the_first_of_the_present_workers_looks_after_lost_jobs(home: Home) -> None:
    arrive(home, "b")
    arrive(home, "a")
    assert [record_presence(home.database, name, None) for name in "ba"] == [False, True]
    with home.database.begin() as connection:
        long_ago = datetime.now(UTC) - timedelta(seconds=worker_registry.AWAY_AFTER_S + 1)
        connection.execute(table.update().where(table.c.worker == "a").values(last_seen=long_ago))
    assert record_presence(home.database, "b", None)
