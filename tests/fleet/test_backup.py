"""A dump of PostgreSQL and a copy of the object store, made while a fleet measures: the same numbers elsewhere."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import obstore
import pytest

from host.settings import Settings
from tests.fleet.lab import Fleet, new_fleet
from tests.warehouse.asking import ask
from tests.warehouse.store.servers import Store, new_store
from warehouse.bundles.store import ObjectStore
from warehouse.bundles.uploads import prepare
from warehouse.ingest.rebuild import rebuild
from warehouse.migrate import migrate

pytestmark = [pytest.mark.fleet, pytest.mark.engine]
NUMBERS = "select * exclude (error) from results where job_id = '{}' order by run_id"


def copy_of_the_database(fleet: Fleet) -> str:
    """Return the URL of a database that was restored from a dump."""
    postgres, server, copy = fleet.services.postgres, fleet.services.server, fleet.services.new_database()
    there = server.url.replace("+psycopg", "")
    dump = (postgres.programs / "pg_dump", "--format=custom", there.format(name=fleet.database))
    made = subprocess.run(dump, check=True, capture_output=True).stdout
    restore = (postgres.programs / "pg_restore", "--no-owner", "-d", there.format(name=copy))
    subprocess.run(restore, check=True, input=made)
    return server.url.format(name=copy)


def copy_of_the_store(fleet: Fleet, to: Store) -> None:
    original, copy = (ObjectStore(store.url)._store for store in (fleet.services.store, to))
    for page in obstore.list(original):
        for item in page:
            obstore.put(copy, item["path"], obstore.get(original, item["path"]).bytes())


def test_a_backup_made_under_load_shows_the_same_numbers_elsewhere(
    migrated: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with new_fleet(tmp_path, migrated, 20.0, "w1", "w2", "ingester") as fleet:
        first = fleet.submit(name="before the backup")
        fleet.assert_whole(first)
        second = fleet.submit(name="under way")
        fleet.host_at(second, "measuring")
        database_url = copy_of_the_database(fleet)
        with new_store(fleet.services.moto_port, tmp_path / "copy", fleet.network.address("store")) as store:
            copy_of_the_store(fleet, store)
            elsewhere = Settings(home=tmp_path / "elsewhere", database_url=database_url, bundles=store.url)
            migrate(elsewhere)
            prepare(elsewhere)
            rebuild(elsewhere)
            here = fleet.home.settings
            assert ask(elsewhere, NUMBERS.format(first)) == ask(here, NUMBERS.format(first))
            fleet.assert_whole(second)
            copied = ask(elsewhere, NUMBERS.format(second))
            assert [row for row in ask(here, NUMBERS.format(second)) if row in copied] == copied
    record_property("fleet", f"backup under load: 8 runs and {len(copied)} of a study under way are the same elsewhere")
