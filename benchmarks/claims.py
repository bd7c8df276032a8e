"""Part claims: what the queue of a fleet costs.

- A claim with 100, 1,000 and 10,000 queued jobs, on SQLite and PostgreSQL, and finding its job alone.
- 100 workers that claim every two seconds at 10,000. Aim: a 95th percentile of 50 ms.
- The heartbeats and polls of 300 workers. Aims: a 99th percentile of 250 ms, and no wait of a second for a lock.
- The same of 100 workers that are processes of their own, on PostgreSQL's default of 100 connections, ten of which
  others hold. Aim: all beat, and none is refused.

The simulated workers share the machine with PostgreSQL, and most of what they wait for is the processor. So they run at
the lowest priority, one more worker does the same beside them, alone in a process and at the usual priority, as if on a
host of its own, and a line has the processor time of both sides. Figures called
"before" are of two processors, too: each queued job was sorted in Python, and each worker requeued, by pg8000.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from benchmarks.processes import postgres_s
from benchmarks.table import wall_ms
from host.priority import take_lowest_priority
from host.settings import Settings
from jobs.fleet import leases
from jobs.fleet.needs import needs_of
from jobs.fleet.worker_registry import PRESENCE_EVERY_S, asked_to_drain, record_presence, register_worker
from jobs.presets import load_preset
from jobs.table import Progress
from jobs.turns import queued_in_turn
from lab.errors import UserError
from tests.postgresql import Server, running_server
from warehouse.app_db.engine import DATABASE_ERRORS, app_engine, migrate_app, open_engine, refuse_newer_database
from warehouse.app_db.schema import job_blocks, job_events, jobs, studies

QUEUED = (100, 1_000, 10_000)
AIM_MS, WORKERS = 50.0, 100
BUSY, BEAT_AIM_MS, LOCK_AIM_S = 300, 250.0, 1.0
SECONDS = 20.0
_LEASE_S, _CLAIMS = 600.0, 20
_HARDWARE, _HOST = "NVIDIA H200", {"vllm": "0.32.0", "endpoint": None}
#: As in workers/heartbeat.py and workers/worker.py.
_BEAT_EVERY_S, _POLL_EVERY_S = 0.5, 2.0
#: Of 300 workers: their processes, and how many connections each of them has.
_PROCESSES, _CONNECTIONS = 2, 20
#: Connections that the page, the ingester and others hold beside 100 workers.
_HELD = 10
_SAMPLED_EVERY_S = 0.1
#: What was before: of 10,000 queued jobs, and of 300 workers.
_BEFORE_CLAIM = f"aim {AIM_MS:g} at p95; before: p95 431"
_BEFORE_BEATS = f"aim {BEAT_AIM_MS:g} at p99; before: p99 1,998"


def run(_settings: Settings, repeats: int) -> None:
    """Print the milliseconds of each on each database."""
    print(f"{'database':<11} {'queued':>7} {'':<32} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8}")
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        (home := Path(folder)).chmod(0o700)
        urls = {"SQLite": f"sqlite:///{home}/app.sqlite", "PostgreSQL": server.url.format(name="postgres")}
        for name, url in urls.items():
            migrate_app(url)
            for queued in QUEUED:
                show_claims(name, url, queued, _CLAIMS * repeats, server)
        show_herd(url)
        show_beats(server, url)
        show_hundred(server, url)


def show_claims(name: str, url: str, queued: int, times: int, server: Server) -> None:
    """Print what one worker's claims take, and their processor time."""
    with _filled(url, queued) as database:
        _show(name, queued, "find its job", [_found_ms(database) for _ in range(times)])
        own_s, server_s = time.process_time(), postgres_s(server)
        took_ms = [_claim_ms(database) for _ in range(times)]
        own_ms, server_ms = (1000 * s / times for s in (time.process_time() - own_s, postgres_s(server) - server_s))
        _show(name, queued, "claim", took_ms, _BEFORE_CLAIM if queued == QUEUED[-1] else "")
    theirs = f", {server_ms:.1f} ms of PostgreSQL's" if name == "PostgreSQL" else ""
    print(f"  a claim and a release: {own_ms:.1f} ms of the worker's processor{theirs} (before, at 10,000: 181 + 14)")


def _show(database: str, queued: int, what: str, took_ms: Sequence[float], aim: str = "") -> None:
    at = statistics.quantiles(took_ms, n=100)
    print(f"{database:<11} {queued:>7,} {what:<32} {at[49]:>8.1f} {at[94]:>8.1f} {at[98]:>8.1f}  {aim}", flush=True)


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


def show_herd(url: str, queued: int = QUEUED[-1], workers: int = WORKERS, times: int = 5) -> None:
    """Print what claims take while so many workers claim every two seconds: to them, and to one more."""
    with _filled(url, queued) as database:
        database.dispose()  # the other process is a fork of this one
        with ProcessPoolExecutor(1, initializer=take_lowest_priority) as process:
            herd = process.submit(_herd_ms, url, workers, times)
            beside_ms = list(_until(herd.done, lambda: _claim_ms(database, "beside")))
        _show("PostgreSQL", queued, f"claims of {workers}, every 2 s", herd.result(), _BEFORE_CLAIM)
        _show("PostgreSQL", queued, "claims of one beside them", beside_ms, _BEFORE_CLAIM)


def _herd_ms(url: str, workers: int, times: int) -> list[float]:
    """Be these workers, over the connections of one pool: more would measure this machine's threads."""

    def work(number: int) -> list[float]:
        time.sleep(_POLL_EVERY_S * number / workers)
        took_ms: list[float] = []
        for _ in range(times):
            took_ms.append(_claim_ms(database, f"w{number}"))
            time.sleep(_POLL_EVERY_S)
        return took_ms

    with open_engine(url) as database, ThreadPoolExecutor(workers) as threads:
        return [took_ms for of_worker in threads.map(work, range(workers)) for took_ms in of_worker]


def _until(is_over: Callable[[], bool], measure: Callable[[], float]) -> Iterator[float]:
    """Yield what is measured until it is over, twice at least: a percentile needs two."""
    count = 0
    while count < 2 or not is_over():
        yield measure()
        count += 1
        time.sleep(_SAMPLED_EVERY_S)


@dataclass(frozen=True)
class Beats:
    """What the heartbeats of simulated workers took, and what was seen meanwhile."""

    took_ms: list[float]
    beside_ms: list[float]  # of one more worker, alone in its process
    refused: int
    lock_wait_s: float  # the longest that was seen
    connections: int  # the most that were in use at once
    sessions_per_s: float  # new connections
    postgres_share: float  # of a processor


def show_beats(server: Server, url: str, workers: int = BUSY, seconds: float = SECONDS) -> None:
    """Print what the heartbeats of so many workers take, over the connections of a few pools."""
    beats = beats_of(server, url, workers, seconds, processes=_PROCESSES, connections=_CONNECTIONS)
    _show("PostgreSQL", 0, f"heartbeats of {workers}", beats.took_ms, _BEFORE_BEATS)
    _show("PostgreSQL", 0, "heartbeats of one beside them", beats.beside_ms, _BEFORE_BEATS)
    print(f"  the longest wait for a lock that was seen: {beats.lock_wait_s:.2f} s  aim {LOCK_AIM_S:g}")
    print(f"  PostgreSQL: {100 * beats.postgres_share:.0f} % of a core", flush=True)


def show_hundred(server: Server, url: str, workers: int = WORKERS, seconds: float = SECONDS) -> None:
    """Print whether as many processes as PostgreSQL has connections can work, each as a worker does."""
    with server.administration() as admin, ExitStack() as held:
        most = int(admin.scalar(sa.text("SHOW max_connections")) or 0)
        others = sa.create_engine(url, poolclass=sa.NullPool)
        for _ in range(_HELD):
            held.enter_context(others.connect())
        beats = beats_of(server, url, workers, seconds, processes=workers, connections=1)
    _show("PostgreSQL", 0, f"heartbeats of {workers} processes", beats.took_ms, _BEFORE_BEATS)
    _show("PostgreSQL", 0, "heartbeats of one beside them", beats.beside_ms, _BEFORE_BEATS)
    print(f"  connections: at most {beats.connections} of {most} at once, {_HELD} of them others'; before: 31 workers")
    print(
        f"  heartbeats without a connection, tried again half a second later: {beats.refused} of {len(beats.took_ms)}"
    )
    share = 100 * beats.postgres_share
    print(f"  {beats.sessions_per_s:.0f} new connections a second, PostgreSQL: {share:.0f} % of a core", flush=True)


def beats_of(server: Server, url: str, workers: int, seconds: float, *, processes: int, connections: int) -> Beats:
    """Let so many workers measure and poll, in so many processes with so many connections each."""
    with _filled(url, 2 * (workers + 1)) as database:
        claimed = [leases.claim(database, f"w{n}/1", _LEASE_S, _HARDWARE, engines=_HOST) for n in range(workers + 1)]
        *owners, own = [(job.job_id, f"w{number}/1") for number, job in enumerate(claimed) if job is not None]
        for _, worker in owners:
            register_worker(database, worker, host=worker, hardware=_HARDWARE, gpus=8, is_dead=lambda _worker: False)
        database.dispose()  # the other processes are forks of this one
        began_s, busy_s, waits_s, in_use = time.monotonic(), postgres_s(server), [0.0], [0.0]
        with ProcessPoolExecutor(processes, initializer=take_lowest_priority) as pool:
            shares = [owners[number::processes] for number in range(processes)]
            works = [pool.submit(_beats, url, share, seconds, connections) for share in shares]
            with server.administration() as admin:
                sessions = _number(admin, _SESSIONS)

                def beat() -> float:
                    waits_s.append(_number(admin, _LOCK_WAIT))
                    in_use.append(_number(admin, _IN_USE))
                    return _beat_ms(database, *own)

                beside_ms = list(_until(lambda: all(work.done() for work in works), beat))
                sessions = _number(admin, _SESSIONS) - sessions
        lasted_s, busy_s = time.monotonic() - began_s, postgres_s(server) - busy_s
        done = [work.result() for work in works]
    return Beats(
        [took_ms for of_process, _ in done for took_ms in of_process],
        beside_ms,
        sum(refused for _, refused in done),
        max(waits_s),
        round(max(in_use)),
        sessions / lasted_s,
        busy_s / lasted_s,
    )


#: For how long the statement has run that waits longest for a lock; connections in use; and those made by now.
_LOCK_WAIT = """SELECT max(extract(epoch FROM clock_timestamp() - query_start)) FROM pg_stat_activity
    WHERE wait_event_type = 'Lock'"""
_IN_USE = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
_SESSIONS = "SELECT sum(sessions) FROM pg_stat_database"


def _number(admin: sa.Connection, query: str) -> float:
    return float(admin.scalar(sa.text(query)) or 0.0)


def _beat_ms(database: sa.Engine, job_id: str, worker: str) -> float:
    progress = Progress(phase="measuring", arm="plain", at=datetime.now(UTC).isoformat())
    return wall_ms(lambda: leases.heartbeat(database, job_id, worker, _LEASE_S, progress))


def _beats(url: str, owners: list[tuple[str, str]], seconds: float, connections: int) -> tuple[list[float], int]:
    """Be these workers, each with its job: beat and poll as a worker's two threads do. Return what heartbeats took, in
    ms, and how many were refused.
    """
    ends_s = time.monotonic() + seconds
    refused: list[Exception] = []

    def beat(number: int) -> list[float]:
        took_ms: list[float] = []
        time.sleep(_BEAT_EVERY_S * number / len(owners))
        while not took_ms or time.monotonic() < ends_s:
            try:
                took_ms.append(_beat_ms(database, *owners[number]))
            except DATABASE_ERRORS as error:
                refused.append(error)
            time.sleep(_BEAT_EVERY_S)
        return took_ms

    def poll(number: int) -> list[float]:
        (job_id, worker), is_first = owners[number], False
        time.sleep(_POLL_EVERY_S * number / len(owners))
        present_s = time.monotonic() - PRESENCE_EVERY_S * number / len(owners)
        while (now_s := time.monotonic()) < ends_s:
            try:
                asked_to_drain(database, worker)
                if is_due := now_s - present_s >= PRESENCE_EVERY_S:
                    is_first, present_s = record_presence(database, worker, job_id), now_s
                refuse_newer_database(database)
                if is_due or is_first:
                    leases.requeue_expired(database)
            except DATABASE_ERRORS as error:
                refused.append(error)
            time.sleep(_POLL_EVERY_S)
        return []

    database = _opened(url, connections, ends_s)
    try:
        with ThreadPoolExecutor(2 * len(owners)) as threads:
            every = [threads.submit(work, number) for number in range(len(owners)) for work in (beat, poll)]
            return [took_ms for each in every for took_ms in each.result()], len(refused)
    finally:
        database.dispose()


def _opened(url: str, connections: int, until_s: float) -> sa.Engine:
    """Connect as a worker does; one that is refused is started again."""
    while True:
        try:
            return app_engine(url, connections=(connections, 0), gives_way=True)
        except UserError:
            if time.monotonic() > until_s:
                raise
            time.sleep(_BEAT_EVERY_S)


@contextmanager
def _filled(url: str, queued: int) -> Iterator[sa.Engine]:
    """A queue of submitters with up to 200 jobs each; one of five is for an engine that this host lacks."""
    study = load_preset("demo")
    text, now = json.dumps(study.model_dump(mode="json")), datetime.now(UTC)
    row = {"study_id": study.digest(), "name": study.name, "study_json": text, "state": "queued", "priority": 0}
    with open_engine(url) as database:
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
