"""Part sizes: what long queues and histories cost, at three sizes each, on PostgreSQL.

- pages: Home and Jobs with so many queued and ended studies (ten of them running): the server's processor time for a
  drawing, the slowest of 20 visitors who come at once, and what an open tab costs each second that nobody touches,
  while nothing happens, and while the running studies report each second. Aims: 2 s, and 5 % of a processor at rest.
- ingester: a round with so many jobs of which none has changed, but a worker has renewed its lease; a round after one
  has changed; and the first round, which reads all. Aim: 50 ms at rest.
- hosts: so many simulated ones, each with a running study whose lease it renews every second, and a record of presence
  every ten: over the connections of one pool, as from one machine. What a heartbeat takes, the processor time of
  PostgreSQL, the questions of the process that requeues, and a drawing of Home beside them.
- burst: 500 bundles of 25 jobs that appear at once beside the runs of 50,000 studies, and as many as 2,000 an hour,
  until they are visible in the published file. Aim: 10 s.

No browser draws: the visitors speak Streamlit's protocol, and ask again as often as the page's parts say.
"""

# ruff: noqa: S608 - no text of a user is in this SQL
from __future__ import annotations

import asyncio
import json
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import duckdb
import psutil
import sqlalchemy as sa

from benchmarks.processes import ingesting, own_home, postgres_s
from benchmarks.reading.filling import RUNS_A_JOB, Size, fill, made_requests, made_run
from benchmarks.reading.pages import AT_ONCE, served
from benchmarks.reading.visitors import all_at_once, new_session, resting
from benchmarks.storing.publish import is_visible, rests, until
from benchmarks.table import wall_ms
from host.settings import Settings
from jobs.fleet import leases, worker_registry
from jobs.fleet.needs import needs_of
from jobs.presets import load_preset
from jobs.table import Progress, add_event
from tests.postgresql import Server, running_server
from warehouse.app_db.engine import open_engine
from warehouse.app_db.schema import job_events, jobs, studies
from warehouse.bundles.run_bundle import write_bundle
from warehouse.ingest.service import ingest_once, open_ingester
from warehouse.migrate import migrate

#: Queued and ended studies; and jobs alone.
STUDIES = ((100, 500), (1_000, 5_000), (10_000, 50_000))
JOBS = (10_000, 100_000, 1_000_000)
HOSTS = (10, 100, 1_000)
BURST, AN_HOUR = 500, 2_000
_BURST_JOBS, _REQUESTS_A_BUNDLE = 25, 100
_RUNNING, _SUBMITTERS, _RUNS_A_STUDY = 10, 20, 4
_SPLIT = RUNS_A_JOB // _RUNS_A_STUDY
_REST_S, _ROUNDS, _STREAM_S, _HOSTS_S = 30.0, 20, 60.0, 20.0
_SENDERS = 8
_AT_ONCE = 2_000
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
#: A job of a hundred runs becomes 25 studies of four arms, of which there are so many copies.
_STUDIES_SQL = f"""
    CREATE TEMP TABLE split AS SELECT run_id, job_id || '-' || printf('%02d',
        (row_number() OVER (PARTITION BY job_id ORDER BY repeat, concurrency, run_id) - 1) // {_RUNS_A_STUDY}) AS job_id
    FROM runs;
    UPDATE runs SET job_id = split.job_id, study_id = split.job_id, repeat = 0 FROM split
        WHERE runs.run_id = split.run_id;
    INSERT INTO runs SELECT runs.* REPLACE (
        run_id || '-' || n AS run_id, cell_key || '-' || n AS cell_key, job_id || '-' || n AS job_id,
        job_id || '-' || n AS study_id, started_at + to_minutes(n) AS started_at
    ) FROM runs, range(1, {{copies}}) AS copies(n);
    INSERT INTO run_metrics SELECT run_metrics.* REPLACE (run_id || '-' || n AS run_id)
        FROM run_metrics, range(1, {{copies}}) AS copies(n);
    INSERT INTO run_validity SELECT run_validity.* REPLACE (run_id || '-' || n AS run_id)
        FROM run_validity, range(1, {{copies}}) AS copies(n);
    DELETE FROM jobs; DELETE FROM study_validity;
    INSERT INTO study_validity BY NAME
        SELECT job_id, count(*) AS runs_judged, []::TEXT[] AS unjudged_checks FROM runs GROUP BY job_id
"""


def run(settings: Settings, _repeats: int) -> None:
    """Measure and print each size."""
    with running_server() as server:
        for queued, ended in STUDIES:
            with _lab(settings, server) as own:
                show_pages(own, queued, ended)
        with _lab(settings, server) as own:
            fill_studies(own, STUDIES[-1][1])
            show_bundles(own, BURST, _STREAM_S)
        for count in HOSTS:
            with _lab(settings, server) as own:
                show_hosts(own, server, count)
        for count in JOBS:
            with _lab(settings, server) as own:
                show_rounds(own, count)


@contextmanager
def _lab(settings: Settings, server: Server) -> Iterator[Settings]:
    """A home with a database of its own on the server."""
    with server.administration() as connection:
        connection.execute(sa.text("CREATE DATABASE sizes"))
        with own_home(settings) as own:
            lab = own.model_copy(update={"database_url": server.url.format(name="sizes")})
            migrate(lab)
            yield lab
        connection.execute(sa.text("DROP DATABASE sizes WITH (FORCE)"))


def show_pages(settings: Settings, queued: int, ended: int) -> None:
    """Fill both databases and print the costs of pages."""
    job_ids = fill_studies(settings, ended)
    with open_engine(settings.app_database_url) as database:
        add_studies(database, queued, job_ids[:ended])
        running = [_claimed(database, number) for number in range(min(_RUNNING, queued))]
        with served(settings) as (url, server):
            for page in ("home", "jobs", "results"):
                asyncio.run(all_at_once(url, page, 1))  # fills what is cached for all visitors
                before_s = _busy_s(server)
                took_s = asyncio.run(all_at_once(url, page, AT_ONCE))
                each_s = (_busy_s(server) - before_s) / AT_ONCE
                _print(f"{queued:,} / {ended:,}", f"{page}: {AT_ONCE} at once, the slowest", max(took_s), "s", "2")
                _print(f"{queued:,} / {ended:,}", f"{page}: processor a drawing", each_s, "s")
                share = _share(url, server, page)
                _print(f"{queued:,} / {ended:,}", f"{page}: a tab at rest", 100 * share, "% of a core", "5")
                with _reporting(database, running):
                    share = _share(url, server, page)
                _print(f"{queued:,} / {ended:,}", f"{page}: a tab, {len(running)} report", 100 * share, "% of a core")


def fill_studies(settings: Settings, count: int) -> list[str]:
    """Fill a warehouse with the runs of so many studies. Return the ids of their jobs."""
    fill(settings, Size(1, requests_per_run=1))
    with duckdb.connect(settings.warehouse_file) as connection:
        connection.execute(_STUDIES_SQL.format(copies=max(1, count // _SPLIT)))
        return [job for (job,) in connection.execute("SELECT DISTINCT job_id FROM runs ORDER BY job_id").fetchall()]


def add_studies(database: sa.Engine, queued: int, ended: list[str]) -> None:
    """Add studies that differ by their names, of several users: all `ended` are done, and the others wait."""
    study = load_preset("demo")
    text = json.dumps(study.model_dump(mode="json"))
    needs = needs_of([arm.engine for arm in study.arms])

    def row(number: int, job_id: str, state: str) -> dict[str, object]:
        at, name, is_done = _NOW + timedelta(minutes=number), f"study {number:06}", state == "done"
        return {
            "job_id": job_id,
            "study_id": f"of {job_id}",
            "name": name,
            "study_json": text.replace('"name": "demo"', f'"name": "{name}"', 1),
            "needs": needs,
            "state": state,
            "submitted_by": f"user {number % _SUBMITTERS}",
            "submitted_at": at,
            "started_at": at if is_done else None,
            "finished_at": at if is_done else None,
        }

    wanted = [(job_id, "done") for job_id in ended] + [(f"queued-{number:06}", "queued") for number in range(queued)]
    for first in range(0, len(wanted), _AT_ONCE):
        rows = [row(first + at, *of) for at, of in enumerate(wanted[first : first + _AT_ONCE])]
        with database.begin() as connection:
            stored = [
                {"study_id": one["study_id"], "name": one["name"], "toml": "", "json": one["study_json"]}
                | {"created_at": one["submitted_at"]}
                for one in rows
            ]
            connection.execute(studies.insert(), stored)
            connection.execute(jobs.insert(), rows)
            events = [
                {"job_id": one["job_id"], "at": one["submitted_at"], "kind": kind, "detail": "", "actor": None}
                for one in rows
                for kind in ("submitted", "claimed", "done")[: 3 if one["state"] == "done" else 1]
            ]
            connection.execute(job_events.insert(), events)
    _analyse(database)


def _analyse(database: sa.Engine) -> None:
    with database.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM ANALYZE"))


def _claimed(database: sa.Engine, number: int) -> str:
    job = leases.claim(database, f"w{number}", 3600.0, "NVIDIA H200")
    assert job is not None  # noqa: S101 - the queue is full
    return job.job_id


@contextmanager
def _reporting(database: sa.Engine, running: list[str]) -> Iterator[None]:
    """Let each running job report its progress once a second."""
    ended = threading.Event()

    def report() -> None:
        while not ended.wait(1.0):
            for number, job_id in enumerate(running):
                at = datetime.now(UTC).isoformat()
                done = int(time.monotonic()) // 10 % 36
                known = {"arm": "draft", "workload": "reference/code/16", "load": "c4-n8", "requests_total": 8}
                progress = Progress(phase="measuring", runs_total=36, runs_done=done, remaining_s=200.0, at=at, **known)
                leases.heartbeat(database, job_id, f"w{number}", 3600.0, progress)

    thread = threading.Thread(target=report)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _share(url: str, server: psutil.Process, page: str) -> float:
    """Return the processor's seconds a second that an open tab costs, without those of the server alone."""

    async def stay() -> tuple[float, float]:
        async with new_session() as session, resting(session, url, page):
            await asyncio.sleep(_REST_S / 10)  # the page's first drawing is not rest
            before_s = _busy_s(server)
            await asyncio.sleep(_REST_S)
            return before_s, _busy_s(server)

    before_s, after_s = asyncio.run(stay())
    alone_s = _busy_s(server)
    time.sleep(_REST_S / 3)
    return (after_s - before_s) / _REST_S - 3 * (_busy_s(server) - alone_s) / _REST_S


def _busy_s(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def show_hosts(settings: Settings, server: Server, count: int) -> None:
    """Print what the heartbeats of this many hosts cost."""
    with open_engine(settings.app_database_url, connections=(_SENDERS, 0)) as database:
        add_studies(database, count, [])
        held = [(_claimed(database, number), f"w{number}") for number in range(count)]
        for number in range(count):
            worker_registry.register_worker(
                database, f"w{number}", host=f"h{number}", hardware="H200", gpus=8, is_dead=lambda _worker: False
            )
        took_ms: list[float] = []
        began_s, busy_s = time.monotonic(), postgres_s(server)

        def send(sender: int) -> None:
            own, second = held[sender::_SENDERS], 0
            while second < _HOSTS_S:
                for job_id, worker in own:
                    took_ms.append(wall_ms(partial(leases.heartbeat, database, job_id, worker, 3600.0, None)))
                    if second % 10 == 0:
                        worker_registry.record_presence(database, worker, job_id)
                second += 1
                time.sleep(max(0.0, began_s + second - time.monotonic()))

        with ThreadPoolExecutor(_SENDERS) as threads:
            list(threads.map(send, range(_SENDERS)))
        lasted_s = time.monotonic() - began_s
        size, cuts = f"{count:,} hosts", statistics.quantiles(took_ms, n=100)
        _print(size, "heartbeat: half of them within", cuts[49], "ms")
        _print(size, "heartbeat: 99 of 100 within", cuts[98], "ms", "250")
        _print(size, "heartbeats a second", len(took_ms) / lasted_s, "", f"{count}")
        _print(size, "PostgreSQL", 100 * (postgres_s(server) - busy_s) / lasted_s, "% of a core")
        requeue_ms = [wall_ms(lambda: leases.requeue_expired(database)) for _ in range(_ROUNDS)]
        _print(size, "requeueing: a look", statistics.median(requeue_ms), "ms")
        with served(settings) as (url, page):
            asyncio.run(all_at_once(url, "home", 1))
            before_s = _busy_s(page)
            asyncio.run(all_at_once(url, "home", 5))
            _print(size, "home: processor a drawing", (_busy_s(page) - before_s) / 5, "s")


def show_rounds(settings: Settings, count: int) -> None:
    """Print what rounds of the ingester take with this many jobs that have ended."""
    with open_engine(settings.app_database_url) as database:
        _add_jobs(database, count)
        began_s = time.perf_counter()
        with open_ingester(settings, database) as ingester:
            ingest_once(ingester)
            _print(f"{count:,} jobs", "ingester: the first round", time.perf_counter() - began_s, "s")

            def heartbeat() -> None:
                with database.begin() as connection:
                    connection.execute(jobs.update().where(jobs.c.job_id == "job-1").values(lease_expires_at=1.0))

            def change() -> None:
                with database.begin() as connection:
                    connection.execute(jobs.update().where(jobs.c.job_id == "job-1").values(error=str(time.time())))
                    add_event(connection, "job-1", "failed")

            for what, work, aim in (("at rest", heartbeat, "50"), ("after a change", change, "")):
                took_ms: list[float] = []
                for _ in range(_ROUNDS):
                    work()
                    took_ms.append(wall_ms(lambda: ingest_once(ingester)))
                _print(f"{count:,} jobs", f"ingester: a round {what}", statistics.median(took_ms), "ms", aim)
    _print(f"{count:,} jobs", "ingester: its memory", psutil.Process().memory_info().rss / 2**20, "MiB")


def _add_jobs(database: sa.Engine, count: int) -> None:
    """Add so many jobs of one study, by the database itself."""
    with database.begin() as connection:
        connection.execute(studies.insert().values(study_id="s", name="s", toml="", json="{}", created_at=_NOW))
        about = "'job-' || n, 's', 'study ' || n, '{}', 'done', now(), now(), now(), 'user ' || n % 20"
        names = "job_id, study_id, name, study_json, state, submitted_at, started_at, finished_at, submitted_by"
        series = f"FROM generate_series(1, {count}) AS n"
        connection.execute(sa.text(f"INSERT INTO jobs ({names}) SELECT {about} {series}"))
        event = "INSERT INTO job_events (job_id, at, kind, detail) SELECT 'job-' || n, now(), 'done', '' "
        connection.execute(sa.text(event + series))
    _analyse(database)


def show_bundles(settings: Settings, burst: int, stream_s: float) -> None:
    """Print how long bundles of several jobs take until they are visible: many at once, and one after the other."""
    requests = made_requests(_REQUESTS_A_BUNDLE, "burst")
    aside = settings.model_copy(update={"bundles_dir": settings.home / "aside"})

    def write(into: Settings, number: int) -> str:
        run = made_run(f"added-{number:06}")
        job_id = f"added-{number % _BURST_JOBS:03}"
        write_bundle(into.bundles, run.model_copy(update={"job_id": job_id, "study_id": job_id}), requests, [], None)
        return run.run_id

    names = [write(aside, number) for number in range(burst)]
    settings.bundles.mkdir(parents=True, exist_ok=True)
    with ingesting(settings) as process:
        until(lambda: rests(process))
        began_s, busy_s = time.monotonic(), _busy_s(process)
        for folder in aside.bundles.iterdir():
            folder.rename(settings.bundles / folder.name)
        until(lambda: is_visible(settings, *names))
        lasted_s = time.monotonic() - began_s
        _print(f"{burst} bundles", "burst: all are visible after", lasted_s, "s", "10")
        _print(f"{burst} bundles", "burst: runs an hour", 3600 * burst / lasted_s, "", f"{AN_HOUR:,}")
        _print(f"{burst} bundles", "burst: processor a bundle", 1000 * (_busy_s(process) - busy_s) / burst, "ms")
        until(lambda: rests(process))
        seen_s = list[float]()
        busy_s, began_s = _busy_s(process), time.monotonic()
        while time.monotonic() - began_s < stream_s:
            name = write(settings, burst + len(seen_s))
            at_s = time.monotonic()
            until(lambda: is_visible(settings, name))  # noqa: B023 - it is called at once
            seen_s.append(time.monotonic() - at_s)
            time.sleep(max(0.0, 3600 / AN_HOUR - (time.monotonic() - at_s)))
        _print(f"{AN_HOUR:,} runs/h", "stream: the last one to be visible", max(seen_s), "s", "10")
        share = (_busy_s(process) - busy_s) / (time.monotonic() - began_s)
        _print(f"{AN_HOUR:,} runs/h", "stream: processor", 100 * share, "% of a core")


def _print(size: str, what: str, value: float, unit: str, aim: str = "") -> None:
    print(f"{size:<18} {what:<40} {value:>9.3f} {unit:<12}{f' aim {aim}' if aim else ''}", flush=True)
