"""A worker whose bundles go to an object store: between its windows, and after an outage."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.warehouse.asking import ask
from tests.warehouse.store.servers import Store, moto, new_store
from tests.workers.homes import Home, celery_worker, until
from warehouse.app_db.schema import jobs
from warehouse.app_db.stored_objects import newer_than
from warehouse.bundles.pending import pending_paths
from warehouse.bundles.run_bundle import find_bundles, read_run
from warehouse.ingest.service import ingest_all
from workers.worker import Worker

pytestmark = pytest.mark.engine

LOADS = [{"max_concurrency": 1, "num_prompts": 8}, {"max_concurrency": 2, "num_prompts": 8}]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with moto() as port, new_store(port, tmp_path / "proxy") as it:
        for name, value in it.variables.items():
            monkeypatch.setenv(name, value)
        yield it


@pytest.fixture
def stored_home(woken_home: Home, store: Store) -> Home:
    """A home whose bundles go to the store."""
    return dataclasses.replace(woken_home, settings=woken_home.settings.model_copy(update={"bundles_url": store.url}))


def test_a_study_goes_on_through_an_outage_and_on_another_host_from_the_store(
    stored_home: Home, store: Store, tmp_path: Path
) -> None:
    """What could not be uploaded follows between windows."""
    home = stored_home
    store.behave("500")
    with celery_worker(home, DRAFTHOUSE_BUNDLES=store.url):
        first = home.submit(loads=LOADS)
        until(lambda: home.job(first).state == "done", "a study is done without the store")
        assert len(pending_paths(home.settings.bundles)) == 4
        assert [row.serial for row in newer_than(home.database, 0)] == []
        store.behave("ok")
        second = home.submit(loads=LOADS, repeats=2)
        until(lambda: home.job(second).state == "done", "another study is done")
        until(lambda: len(newer_than(home.database, 0)) == 12, "everything is uploaded")
    runs = [read_run(folder) for folder in find_bundles(home.settings.bundles)]
    assert [work for run in runs for work in run.beside or () if work.kind == "ingest"] == []
    ingest_all(home.settings)
    assert ask(home.settings, "select count(*) from runs") == [(12,)]
    changes = {"home": tmp_path / "another", "database_url": home.settings.app_database_url}
    another = home.settings.model_copy(update=changes)
    with home.database.begin() as connection:
        again = {"state": "queued", "worker": None, "lease_expires_at": None, "finished_at": None}
        connection.execute(jobs.update().where(jobs.c.job_id == first).values(again))
    another.bundles.mkdir(parents=True)
    shutil.copy(home.settings.home / "policy.toml", another.home)
    Worker(another).work()
    assert home.job(first).state == "done"
    assert len(list(find_bundles(another.bundles))) == 4
    assert not pending_paths(another.bundles)
