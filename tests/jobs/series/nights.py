"""A series of a home, nights that it remembers, and nights that are measured as a worker would leave them."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from jobs.fleet import leases
from jobs.series import store
from jobs.series.store import Plan
from lab.study.plan import plan
from tests.actors import ADMIN
from tests.webapp.measured import write_run
from tests.workers.homes import Home
from warehouse.app_db.schema import alarms as alarms_table
from warehouse.app_db.schema import nights as nights_table
from warehouse.app_db.schema import series as series_table
from warehouse.ingest.service import ingest_all

DAY, DAILY = timedelta(days=1), Plan("day at 02:00")
START = datetime(2026, 6, 1, 12, tzinfo=UTC)
NIGHT = datetime(2026, 6, 2, 2, 0, 1, tzinfo=UTC)
ONE_CELL = {"loads": [{"max_concurrency": 1, "num_prompts": 4}], "repeats": 2}


def add_series(home: Home) -> None:
    """Add the series nightly, which is due at two each night since START."""
    store.add(home.settings, home.database, "nightly", home.study(**ONE_CELL), DAILY, actor=ADMIN)
    with home.database.begin() as connection:
        connection.execute(sa.update(series_table).values(due_since=START))


def remember(lab: Home, count: int = 12, arm: str = "drafted") -> None:
    """Nights before START: the draft is about as fast as `write_run` makes it, with a little noise."""
    rows = [
        {
            "night_id": f"nightly {number} {arm}",
            "series": "nightly",
            "arm": arm,
            "due_at": START - (count - number) * DAY,
            "state": "measured",
            "speedup": 1.164 * (1 + 0.005 * math.sin(number)),
            "speedup_finding": "usual",
        }
        for number in range(count)
    ]
    with lab.database.begin() as connection:
        connection.execute(nights_table.insert(), rows)


def raise_fall(database: sa.Engine, night_id: str, at: datetime, sentence: str) -> None:
    """An open alarm of the series nightly."""
    about = {"series": "nightly", "night_id": night_id, "kind": "fall", "measure": "speedup", "sentence": sentence}
    with database.begin() as connection:
        connection.execute(alarms_table.insert().values(about | {"raised_at": at}))


def measure(lab: Home, slower: float = 1.0) -> None:
    """Let a worker measure the queued job, with a draft that takes so many times as long for a token."""
    job = leases.claim(lab.database, "me", 3600)
    assert job is not None
    for launch in plan(job.study):
        for run in launch.runs:
            factor = 1.0 if run.arm == job.study.baseline else slower
            write_run(lab.settings, job.study, run, job.job_id, launch.index, slower=factor)
    leases.finish(lab.database, job.job_id, "me", "done")
    ingest_all(lab.settings)
