"""Part idle: the cost of the ingester while nothing happens, and when only the state of a job changes, in a home with
50,000 ingested bundles of 500 jobs. Aim: 5 ms of processor a second for the ingester and the processes that it starts.
When the state of a job changes in the app database: the seconds until readers see it, and the seconds of processor and
the bytes that the ingester spends on it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import psutil
import sqlalchemy as sa

from benchmarks.processes import ingesting, own_home
from benchmarks.reading.filling import RUNS_A_JOB, Size, fill
from benchmarks.storing.publish import rests, until, written
from benchmarks.table import Row, show
from host.settings import Settings
from jobs.table import add_event
from warehouse.app_db.engine import open_engine
from warehouse.app_db.schema import jobs, studies
from warehouse.bundles.run_bundle import RUN_FILE, bundle_folder
from warehouse.queries.connect import open_warehouse

BUNDLES = 50_000
AIM_MS = 5.0
_FOR_S = 30.0
_STUDY_LETTERS = 10_000  # of a study as JSON


def run(settings: Settings, repeats: int, bundles: int = BUNDLES, for_s: float = _FOR_S) -> None:
    """Fill a warehouse, make the folders of its bundles, and print what the ingester costs."""
    with own_home(settings) as own:
        print(f"idle: making {bundles:,} bundles", file=sys.stderr)
        fill(own, Size(bundles // RUNS_A_JOB, requests_per_run=1))
        _make_bundles(own)
        with open_engine(own.app_database_url) as app:
            job_ids = _make_jobs(own, app)
            with ingesting(own) as process:
                until(lambda: _jobs(own, "done") == len(job_ids) and rests(process))
                idle_ms = [_idle_ms(process, for_s) for _ in range(repeats)]
                changes = [_change(own, app, process, job_id) for job_id in job_ids[:repeats]]
    show_costs(f"{bundles:,} bundles in {len(job_ids)} jobs", idle_ms, changes)


def show_costs(about: str, idle_ms: Sequence[float], changes: Sequence[tuple[float, float, float]]) -> None:
    seen_s, busy_s, megabytes = (list(column) for column in zip(*changes, strict=True))
    show(
        f"The ingester at rest: {about}",
        "aim",
        [Row("ms of processor a second", idle_ms, [AIM_MS] * len(idle_ms), "1 at most")],
    )
    print(
        f"a job's change of state: seen after {statistics.median(seen_s):.2f} s, for "
        f"{statistics.median(busy_s):.2f} s of processor and {statistics.median(megabytes):.2f} MB written"
    )


def _make_bundles(settings: Settings) -> None:
    """Make a folder for each run of the warehouse. The files of ingested bundles are never read."""
    with open_warehouse(settings.warehouse_file) as connection:
        for job_id, run_id in connection.execute("SELECT job_id, run_id FROM runs").fetchall():
            folder = bundle_folder(settings.bundles, job_id, run_id)
            folder.mkdir(parents=True)
            (folder / RUN_FILE).touch()


def _make_jobs(settings: Settings, app: sa.Engine) -> list[str]:
    """Add the jobs of the warehouse to the app database, each with a study of its own."""
    with open_warehouse(settings.warehouse_file) as connection:
        job_ids = [job_id for (job_id,) in connection.execute("SELECT DISTINCT job_id FROM runs").fetchall()]
    now = datetime.now(UTC)
    text = "x" * _STUDY_LETTERS
    study = {"name": "made", "toml": text, "json": f'"{text}"', "created_at": now}
    job = {"name": "made", "study_json": text, "state": "done", "submitted_at": now, "finished_at": now}
    with app.begin() as connection:
        connection.execute(studies.insert(), [{"study_id": f"of {job_id}", **study} for job_id in job_ids])
        connection.execute(jobs.insert(), [{"job_id": job_id, "study_id": f"of {job_id}", **job} for job_id in job_ids])
    return job_ids


def _idle_ms(process: psutil.Process, for_s: float) -> float:
    before_s = _busy_s(process)
    time.sleep(for_s)
    return (_busy_s(process) - before_s) / for_s * 1000


def _busy_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _change(settings: Settings, app: sa.Engine, process: psutil.Process, job_id: str) -> tuple[float, float, float]:
    """Change a job's state. Returns the seconds until it is seen, the processor's seconds, and the MB written."""
    busy_s, megabytes, changed = _busy_s(process), written(process) / 1e6, _jobs(settings, "failed") + 1
    with app.begin() as connection:
        connection.execute(jobs.update().where(jobs.c.job_id == job_id).values(state="failed"))
        add_event(connection, job_id, "failed")
    began_s = time.monotonic()
    until(lambda: _jobs(settings, "failed") == changed)
    seen_s = time.monotonic() - began_s
    until(lambda: rests(process))
    return seen_s, _busy_s(process) - busy_s, written(process) / 1e6 - megabytes


def _jobs(settings: Settings, state: str) -> int:
    with open_warehouse(settings.warehouse_file) as connection:
        row = connection.execute("SELECT count(*) FROM jobs WHERE state = ?", [state]).fetchone()
    return 0 if row is None else int(row[0])
