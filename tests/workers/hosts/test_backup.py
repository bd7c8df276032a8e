"""A backup of the app database and, after it, of the object store."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import sqlite3
from pathlib import Path

from host.settings import Settings
from jobs import queue
from tests.warehouse.asking import contents
from tests.workers.homes import Home
from warehouse.app_db.engine import open_engine
from warehouse.bundles.uploads import prepare, upload_all
from warehouse.ingest.rebuild import rebuild
from warehouse.ingest.service import ingest_all
from workers.worker import Worker

STUDY = {"arms": [{"name": "plain", "baseline": True}, {"name": "other"}], "repeats": 2}
LOADS = [{"max_concurrency": 1, "num_prompts": 4}]


def measure(settings: Settings) -> None:
    Worker(settings).work()
    with open_engine(settings.app_database_url) as database:
        upload_all(settings, database)
    ingest_all(settings)


def measure_a_block(home: Home) -> None:
    """As a worker that drains in its first block."""
    worker, asked = Worker(home.settings), itertools.count()
    worker._why_no_jobs()
    job = worker._claim()
    assert job is not None
    worker._draining.is_set = lambda: next(asked) >= 2  # type: ignore[method-assign]
    worker._measure_or_fail(job)
    upload_all(home.settings, home.database)


def test_a_backup_of_a_lab_at_work_has_the_same_numbers_elsewhere(home: Home, migrated: Path, tmp_path: Path) -> None:
    """The study goes on after the database was copied: its other runs are in the copy of the store, and count once."""
    here = home.settings.model_copy(update={"bundles_url": f"file://{tmp_path}/store"})
    prepare(here)
    job_id = Home(here, home.database, home.folder).submit(**STUDY, loads=LOADS)
    measure_a_block(Home(here, home.database, home.folder))
    with (
        contextlib.closing(sqlite3.connect(here.home / "app.sqlite")) as original,
        contextlib.closing(sqlite3.connect(tmp_path / "copy.sqlite")) as copy,
    ):
        original.backup(copy)
    measure(here)
    assert home.job(job_id).state == "done"
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    shutil.copytree(migrated, tmp_path / "elsewhere")
    shutil.copy(tmp_path / "copy.sqlite", tmp_path / "elsewhere" / "app.sqlite")
    shutil.copy(here.home / "policy.toml", tmp_path / "elsewhere")
    elsewhere = here.model_copy(update={"home": tmp_path / "elsewhere", "bundles_url": f"file://{tmp_path}/copy"})
    prepare(elsewhere)
    rebuild(elsewhere)
    assert contents(elsewhere)["runs"] == contents(here)["runs"]
    measure(elsewhere)  # the study was queued when the database was copied
    with open_engine(elsewhere.app_database_url) as database:
        assert queue.job(database, job_id).state == "done"
    assert contents(elsewhere) == contents(here)
