"""Readers always find the published file complete, and no second process can write the master."""

from __future__ import annotations

import subprocess
import sys

from tests.warehouse.asking import ask
from tests.warehouse.runs import write_run
from warehouse.ingest.master import connect_master
from warehouse.ingest.publish import publish
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse
from warehouse.settings import Settings


def test_a_leftover_copy_of_a_killed_ingester_is_removed(settings: Settings) -> None:
    leftover = settings.home / ".warehouse.duckdb.0badcafe.publishing"
    leftover.write_bytes(b"half")
    ingest_all(settings)
    assert not leftover.exists()


def test_an_open_reader_keeps_its_file_and_a_new_one_sees_the_new_run(settings: Settings) -> None:
    with open_warehouse(settings.warehouse_file) as old:
        write_run(settings.bundles)
        ingest_all(settings)
        assert old.execute("select count(*) from runs").fetchone() == (0,)
        assert ask(settings, "select count(*) from runs") == [(1,)]


def test_the_master_stays_locked_while_it_is_published(settings: Settings) -> None:
    """Copying it in this process would drop the lock: another process then wrote, and its tables were lost."""
    other = [sys.executable, "-c", "import duckdb, sys; duckdb.connect(sys.argv[1])", str(settings.master_file)]
    with connect_master(settings.master_file) as connection:
        publish(connection, settings.master_file, settings.warehouse_file)
        refused = subprocess.run(other, capture_output=True, text=True, check=False)
    assert "Could not set lock" in refused.stderr
