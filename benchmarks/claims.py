"""Part claims: what the queue of a fleet costs.

A claim with 100, 1,000 and 10,000 queued jobs, on SQLite and PostgreSQL, and finding its job alone, in SQL and as
before, when every queued job was read and sorted in Python. Then 100 workers that claim at once, and the heartbeats of
300 workers that also poll. Aims: a 95th percentile of 50 ms for claims at 10,000; for heartbeats a 99th of 250 ms, and
no wait of a second for a lock.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from host.settings import Settings
from jobs.fleet import leases
from jobs.fleet.needs import needs_of
from jobs.fleet.worker_registry import PRESENCE_EVERY_S, asked_to_drain, record_presence, register_worker
from jobs.presets import load_preset
from jobs.table import Progress
from jobs.turns import in_turn, queued_in_turn
from tests.postgresql import running_server
from warehouse.app_db.engine import app_engine, migrate_app, refuse_newer_database
from warehouse.app_db.schema import job_blocks, job_events, jobs, studies

QUEUED = (100, 1_000, 10_000)
AIM_MS, WORKERS = 50.0, 100
BUSY, BEAT_AIM_MS = 300, 250.0
_LEASE_S, _CLAIMS = 600.0, 20
_HARDWARE, _HOST = "NVIDIA H200", {"vllm": "0.32.0", "endpoint": None}
#: As in workers/heartbeat.py and workers/worker.py.
_BEAT_EVERY_S, _POLL_EVERY_S = 0.5, 2.0
#: The simulated workers' processes, and how many connections each of them has.
_PROCESSES, _CONNECTIONS = 2, 20


def run(_settings: Settings, repeats: int) -> None:
    """Print the milliseconds of each on each database."""
    print(f"{'database':<11} {'queued':>7} {'':<26} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8}")
    works = {"claim": _claim_ms, "find it in SQL": _found_ms, "find it in Python": _sorted_ms}
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        (home := Path(folder)).chmod(0o700)
        urls = {"SQLite": f"sqlite:///{home}/app.sqlite", "PostgreSQL": server.url.format(name="postgres")}
        for name, url in urls.items():
            migrate_app(url)
            for queued in QUEUED:
                with _filled(url, queued) as database:
                    for what, work in works.items():
                        took_ms = [work(database) for _ in range(_CLAIMS * repeats)]
                        is_aim = what == "claim" and queued == QUEUED[-1]
                        _show(name, queued, what, took_ms, f"aim {AIM_MS:g} at p95" if is_aim else "")
        _show(name, QUEUED[-1], f"{WORKERS} claim every 2 s", herd_ms(url), f"aim {AIM_MS:g} at p95")
        took_ms, waited_s = heartbeats(url)
        _show(name, 0, f"heartbeats of {BUSY}", took_ms, f"aim {BEAT_AIM_MS:g} at p99")
        print(f"the longest wait for a lock that was seen: {waited_s:.2f} s  aim 1")


def _show(database: str, queued: int, what: str, took_ms: list[float], aim: str) -> None:
    at = statistics.quantiles(took_ms, n=100)
    print(f"{database:<11} {queued:>7,} {what:<26} {at[49]:>8.1f} {at[94]:>8.1f} {at[98]:>8.1f}  {aim}", flush=True)


def _claim_ms(database: sa.Engine, worker: str = "w") -> float:
    """Claim a job, and put it back. A study of a GPU host: nothing else of its host waits for it."""
    began_s = time.perf_counter()
    job = leases.claim(database, f"{worker}/1", _LEASE_S, _HARDWARE, engines=_HOST)
    took_ms = 1000 * (time.perf_counter() - began_s)
    assert job is not None  # noqa: S101 - the queue is full
    leases.release(database, job.job_id, f"{worker}/1")
    return took_ms


def _found_ms(database: sa.Engine) -> float:
    began_s = time.perf_counter()
    with database.begin() as connection:
        next(queued_in_turn(connection, _HARDWARE, (), _HOST))
    return 1000 * (time.perf_counter() - began_s)


def _sorted_ms(database: sa.Engine) -> float:
    """Find the first job as claims did until 0.2.0."""
    began_s = time.perf_counter()
    columns = (jobs.c.job_id, jobs.c.priority, jobs.c.submitted_at, jobs.c.submitted_by, jobs.c.hardware)
    with database.begin() as connection:
        running = connection.scalars(sa.select(jobs.c.submitted_by).where(jobs.c.state == "running")).all()
        waiting = connection.execute(sa.select(*columns).where(jobs.c.state == "queued")).all()
    next(row.job_id for row in in_turn(waiting, running) if row.hardware is None)
    return 1000 * (time.perf_counter() - began_s)


def herd_ms(url: str, queued: int = QUEUED[-1], workers: int = WORKERS) -> list[float]:
    """Return what claims of so many workers take, each of which claims every two seconds, over the connections of one
    pool: more would measure this machine's threads.
    """

    def work(number: int) -> list[float]:
        time.sleep(_POLL_EVERY_S * number / workers)
        took_ms: list[float] = []
        for _ in range(5):
            took_ms.append(_claim_ms(database, f"w{number}"))
            time.sleep(_POLL_EVERY_S)
        return took_ms

    with _filled(url, queued) as database, ThreadPoolExecutor(workers) as threads:
        return [took_ms for of_worker in threads.map(work, range(workers)) for took_ms in of_worker]


def heartbeats(url: str, workers: int = BUSY, seconds: float = 20.0) -> tuple[list[float], float]:
    """Return what heartbeats take while so many workers measure and poll, and the longest wait for a lock, in s."""
    with _filled(url, 2 * workers) as database:
        claimed = [leases.claim(database, f"w{n}/1", _LEASE_S, _HARDWARE, engines=_HOST) for n in range(workers)]
        owners = [(job.job_id, f"w{number}/1") for number, job in enumerate(claimed) if job is not None]
        for _, worker in owners:
            register_worker(database, worker, host=worker, hardware=_HARDWARE, gpus=8, is_dead=lambda _worker: False)
        shares = [owners[number::_PROCESSES] for number in range(_PROCESSES)]
        database.dispose()  # the other processes are forks of this one
        with ProcessPoolExecutor(_PROCESSES) as processes:
            works = [processes.submit(_beats_ms, url, share, seconds) for share in shares]
            waits_s = [0.0]
            while not all(work.done() for work in works):
                time.sleep(0.1)
                waits_s.append(_longest_wait_s(database))
        return [took_ms for work in works for took_ms in work.result()], max(waits_s)


def _longest_wait_s(database: sa.Engine) -> float:
    """Return for how long the statement has run that waits longest for a lock."""
    waits = "SELECT max(extract(epoch FROM clock_timestamp() - query_start)) FROM pg_stat_activity WHERE"
    with database.connect() as connection:
        longest = connection.scalar(sa.text(waits + " wait_event_type = 'Lock'"))
    return float(longest or 0.0)


def _beats_ms(url: str, owners: list[tuple[str, str]], seconds: float) -> list[float]:
    """Be these workers, each with its job: beat and poll as a worker's two threads do."""
    database = app_engine(url, connections=(_CONNECTIONS, 0))
    ends_s = time.monotonic() + seconds

    def beat(number: int) -> list[float]:
        job_id, worker = owners[number]
        took_ms: list[float] = []
        progress = Progress(phase="measuring", arm="plain", at=datetime.now(UTC).isoformat())
        time.sleep(_BEAT_EVERY_S * number / len(owners))
        while time.monotonic() < ends_s:
            began_s = time.perf_counter()
            leases.heartbeat(database, job_id, worker, _LEASE_S, progress)
            took_ms.append(1000 * (time.perf_counter() - began_s))
            time.sleep(_BEAT_EVERY_S)
        return took_ms

    def poll(number: int) -> list[float]:
        (job_id, worker), is_first = owners[number], False
        time.sleep(_POLL_EVERY_S * number / len(owners))
        present_s = time.monotonic() - PRESENCE_EVERY_S * number / len(owners)
        while (now_s := time.monotonic()) < ends_s:
            asked_to_drain(database, worker)
            if is_due := now_s - present_s >= PRESENCE_EVERY_S:
                is_first, present_s = record_presence(database, worker, job_id), now_s
            refuse_newer_database(database)
            if is_due or is_first:
                leases.requeue_expired(database)
            time.sleep(_POLL_EVERY_S)
        return []

    try:
        with ThreadPoolExecutor(2 * len(owners)) as threads:
            every = [threads.submit(work, number) for number in range(len(owners)) for work in (beat, poll)]
            return [took_ms for each in every for took_ms in each.result()]
    finally:
        database.dispose()


@contextmanager
def _filled(url: str, queued: int) -> Iterator[sa.Engine]:
    """A queue of submitters with up to 200 jobs each; one of five is for an engine that this host lacks."""
    database = app_engine(url)
    study = load_preset("demo")
    text, now = json.dumps(study.model_dump(mode="json")), datetime.now(UTC)
    row = {"study_id": study.digest(), "name": study.name, "study_json": text, "state": "queued", "priority": 0}
    try:
        with database.begin() as connection:
            for table in (job_events, job_blocks, jobs, studies):
                connection.execute(table.delete())
            stored = {"study_id": study.digest(), "name": study.name, "toml": "", "json": text, "created_at": now}
            connection.execute(studies.insert().values(stored))
            connection.execute(
                jobs.insert(),
                [
                    row
                    | {"job_id": f"job-{number:06}", "submitted_at": now + timedelta(seconds=number)}
                    | {"submitted_by": f"user {number % max(10, queued // 200)}"}
                    | {"needs": needs_of(["vllm" if number % 5 else "sglang"])}
                    for number in range(queued)
                ],
            )
        if database.dialect.name == "postgresql":  # which does this by itself within a minute; SQLite never does
            with database.begin() as connection:
                connection.execute(sa.text("ANALYZE"))
        yield database
    finally:
        database.dispose()
