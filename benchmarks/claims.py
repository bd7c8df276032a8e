"""Part claims: what a claim costs with 100, 1,000 and 10,000 queued jobs, on SQLite and PostgreSQL: by the rule in SQL,
by the one before it, which read every queued job and sorted in Python, and with 100 workers that claim at once. Aim: a
95th percentile of 50 ms at 10,000.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from host.settings import Settings
from jobs import leases
from jobs.needs import needs_of
from jobs.presets import load_preset
from jobs.turns import in_turn
from tests.postgresql import running_server
from warehouse.app_db.engine import app_engine, migrate_app
from warehouse.app_db.schema import job_blocks, job_events, jobs, studies

QUEUED = (100, 1_000, 10_000)
AIM_MS, WORKERS = 50.0, 100
_LEASE_S, _CLAIMS = 600.0, 20
_HOST = {"vllm": "0.32.0", "endpoint": None}


def run(_settings: Settings, repeats: int) -> None:
    """Print the milliseconds of a claim on each database."""
    print(f"{'database':<11} {'queued':>7} {'claim':<22} {'p50 ms':>8} {'p95 ms':>8}")
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        (home := Path(folder)).chmod(0o700)
        urls = {"SQLite": f"sqlite:///{home}/app.sqlite", "PostgreSQL": server.url.format(name="postgres")}
        for name, url in urls.items():
            migrate_app(url)
            for queued in QUEUED:
                with _filled(url, queued) as database:
                    for what, work in (("in SQL", _claim_ms), ("sorted in Python", _sorted_ms)):
                        _show(name, queued, what, [work(database) for _ in range(_CLAIMS * repeats)])
            if name == "PostgreSQL":
                _show(name, QUEUED[-1], f"{WORKERS} workers, each 2 s", _herd_ms(url))


def _show(database: str, queued: int, what: str, took_ms: list[float]) -> None:
    middle, high = statistics.median(took_ms), statistics.quantiles(took_ms, n=20)[-1]
    aim = f"  aim {AIM_MS:g}" if queued == QUEUED[-1] and what != "sorted in Python" else ""
    print(f"{database:<11} {queued:>7,} {what:<22} {middle:>8.1f} {high:>8.1f}{aim}", flush=True)


def _claim_ms(database: sa.Engine, worker: str = "w") -> float:
    """Claim a job, and put it back. A study of a GPU host: nothing else of its host waits for it."""
    began_s = time.perf_counter()
    job = leases.claim(database, f"{worker}/1", _LEASE_S, "NVIDIA H200", engines=_HOST)
    took_ms = 1000 * (time.perf_counter() - began_s)
    assert job is not None  # noqa: S101 - the queue is full
    leases.release(database, job.job_id, f"{worker}/1")
    return took_ms


def _sorted_ms(database: sa.Engine) -> float:
    """Only find the first job, as claims did until 0.2.0."""
    began_s = time.perf_counter()
    columns = (jobs.c.job_id, jobs.c.priority, jobs.c.submitted_at, jobs.c.submitted_by, jobs.c.hardware)
    with database.begin() as connection:
        running = connection.scalars(sa.select(jobs.c.submitted_by).where(jobs.c.state == "running")).all()
        waiting = connection.execute(sa.select(*columns).where(jobs.c.state == "queued")).all()
    next(row.job_id for row in in_turn(waiting, running) if row.hardware is None)
    return 1000 * (time.perf_counter() - began_s)


def _herd_ms(url: str) -> list[float]:
    """Return what claims of so many workers take, each of which claims every two seconds, over the connections of one
    pool: more would measure this machine's threads.
    """
    took_ms: list[float] = []
    with _filled(url, QUEUED[-1]) as database:

        def work(number: int) -> None:
            time.sleep(2 * number / WORKERS)
            for _ in range(5):
                took_ms.append(_claim_ms(database, f"w{number}"))
                time.sleep(2.0)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return took_ms


@contextmanager
def _filled(url: str, queued: int) -> Iterator[sa.Engine]:
    """A queue of ten submitters with so many jobs; one of five is for an engine that this host lacks."""
    database = app_engine(url)
    with ExitStack() as stack:
        stack.callback(database.dispose)
        study = load_preset("demo")
        text, now = json.dumps(study.model_dump(mode="json")), datetime.now(UTC)
        row = {"study_id": study.digest(), "name": study.name, "study_json": text, "state": "queued", "priority": 0}
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
                    | {"submitted_by": f"user {number % 10}", "needs": needs_of(["vllm" if number % 5 else "sglang"])}
                    for number in range(queued)
                ],
            )
        with database.begin() as connection:
            connection.execute(sa.text("ANALYZE"))
        yield database
