"""Readers always find the published file complete, and no second process can write the master."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lab.errors import UserError
from tests.warehouse.asking import ask
from tests.warehouse.runs import write_run
from warehouse.ingest.master import (
    connect_master,
    insert,
    only_ingester,
    publish,
    published_revision,
    remove_leftovers,
    transaction,
)
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse
from warehouse.schema import revisions
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


def test_the_copy_is_synced_before_and_its_folder_after_it_takes_the_files_place(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, rename = os.fsync, Path.rename

    def synced(descriptor: int) -> None:
        steps.append(f"sync {Path(f'/proc/self/fd/{descriptor}').readlink().name}")
        sync(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        steps.append(f"rename {path.name} to {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "rename", renamed)
    before = settings.warehouse_file.stat().st_ino
    with connect_master(settings.master_file) as connection:
        publish(connection, settings.master_file, settings.warehouse_file)
    copy = steps[0].removeprefix("sync ")
    assert re.fullmatch(r"\.warehouse\.duckdb\.[0-9a-f]{8}\.publishing", copy)
    assert steps == [f"sync {copy}", f"rename {copy} to warehouse.duckdb", f"sync {settings.home.name}"]
    assert settings.warehouse_file.stat().st_ino != before
    assert list(settings.home.glob(".*publishing")) == []


def test_a_copy_that_fails_leaves_the_old_file_and_says_why(settings: Settings) -> None:
    before = settings.warehouse_file.read_bytes()
    with (
        connect_master(settings.master_file) as connection,
        pytest.raises(OSError, match=r"\.publishing could not be written: cp: .*No such file or directory$") as caught,
    ):
        publish(connection, settings.home / "no master", settings.warehouse_file)
    assert str(caught.value).startswith(f"{settings.home}/.warehouse.duckdb.")
    assert settings.warehouse_file.read_bytes() == before
    assert list(settings.home.glob(".*publishing")) == []


def test_only_leftovers_of_this_file_are_removed(settings: Settings) -> None:
    kept = [settings.home / name for name in (".other.duckdb.1.publishing", "warehouse.duckdb.publishing")]
    leftovers = [settings.home / f".warehouse.duckdb.{name}.publishing" for name in ("a", "b")]
    for path in (*kept, *leftovers):
        path.touch()
    remove_leftovers(settings.warehouse_file)
    assert [path.exists() for path in (*kept, *leftovers)] == [True, True, False, False]


def test_a_home_has_one_ingester_and_another_is_told_its_number(settings: Settings) -> None:
    with only_ingester(settings.home), pytest.raises(UserError) as caught, only_ingester(settings.home):
        pass
    assert str(caught.value) == (
        f"an ingester already runs on {settings.home.absolute()} (process {os.getpid()}): stop it first"
    )
    with only_ingester(settings.home):
        assert (settings.home / "ingester.lock").read_text() == f"{os.getpid()}\n"


def test_a_failed_transaction_leaves_nothing_and_keeps_its_first_error(settings: Settings) -> None:
    row = {"path": "a", "error": "b", "rejected_at": datetime.now(UTC)}

    def fail(connection: duckdb.DuckDBPyConnection) -> None:
        with transaction(connection):
            insert(connection, {"rejected_bundles": pa.Table.from_pylist([row])})
            raise KeyError("first")

    with connect_master(settings.master_file) as connection:
        with pytest.raises(KeyError, match="first"):
            fail(connection)
        assert connection.execute("SELECT count(*) FROM rejected_bundles").fetchone() == (0,)
        with transaction(connection):
            insert(connection, {"rejected_bundles": pa.Table.from_pylist([row])})
        assert connection.execute("SELECT path, error FROM rejected_bundles").fetchall() == [("a", "b")]


def test_a_published_file_has_the_masters_revision_and_none_has_none(settings: Settings) -> None:
    assert published_revision(settings.warehouse_file) == revisions.head("warehouse")
    assert published_revision(settings.home / "nothing") is None
