"""A home has one master with one ingester, and its transactions are all or nothing."""

from __future__ import annotations

import os
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest

from host.settings import Settings
from lab.errors import UserError
from warehouse.ingest.master import connect_master, insert, only_ingester, published_revision, transaction
from warehouse.schema import revisions


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
