"""Merging groups of rows keeps every row in its place, and leaves few groups."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from host.settings import Settings
from warehouse.ingest import row_groups
from warehouse.ingest.master import connect_master
from warehouse.ingest.row_groups import merge_groups

_VERDICT = "INSERT INTO run_validity SELECT 'run ' || ?, true, [], []"
_HISTOGRAM = "INSERT INTO histograms SELECT 'run ' || ?, 'ttft', range, 1 FROM range(?)"


@pytest.fixture
def master(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[duckdb.DuckDBPyConnection]:
    monkeypatch.setattr(row_groups, "RUNS_A_GROUP", 3)
    with connect_master(settings.master_file) as connection:
        yield connection


def add_run(master: duckdb.DuckDBPyConnection, number: int, buckets: int = 4) -> None:
    """Each run lies in groups of its own until they are merged."""
    master.execute(_VERDICT, [number])
    master.execute(_HISTOGRAM, [number, buckets])
    master.execute("CHECKPOINT")


def groups(master: duckdb.DuckDBPyConnection, table: str) -> int:
    row = master.execute(f"SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('{table}')").fetchone()
    assert row is not None
    return int(row[0])


def test_groups_are_merged_again_and_again_and_rows_stay_in_order(master: duckdb.DuckDBPyConnection) -> None:
    for number in range(22):
        add_run(master, number)
        merge_groups(master)
        master.execute("CHECKPOINT")
    assert groups(master, "run_validity") == groups(master, "histograms") == 2 + 1 + 1  # 9, 9, 3 and 1 runs
    assert master.execute("SELECT rowid, run_id FROM run_validity ORDER BY rowid").fetchall() == [
        (number, f"run {number}") for number in range(22)
    ]
    assert master.execute("SELECT rowid, run_id, bucket FROM histograms ORDER BY rowid").fetchall() == [
        (4 * number + bucket, f"run {number}", bucket) for number in range(22) for bucket in range(4)
    ]


def test_merging_leaves_no_gap_after_new_or_uncommitted_rows(
    master: duckdb.DuckDBPyConnection,
) -> None:
    for number in range(5):
        add_run(master, number)
    master.execute(_VERDICT, [5])
    master.begin()
    master.execute(_VERDICT, [6])
    master.rollback()
    master.execute(_VERDICT, [6])
    assert merge_groups(master, only_overdue=True)
    master.execute("CHECKPOINT")
    assert master.execute("SELECT rowid, run_id FROM run_validity ORDER BY rowid").fetchall() == [
        (number, f"run {number}") for number in range(7)
    ]


def test_groups_with_many_rows_are_not_written_again(
    master: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_groups, "MOST_ROWS", 11)
    for number in range(3):
        add_run(master, number)
    assert merge_groups(master)
    master.execute("CHECKPOINT")
    assert (groups(master, "run_validity"), groups(master, "histograms")) == (1, 3)


def test_runs_too_many_to_be_merged_are_left_as_they_are(
    master: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        add_run(master, number)
    monkeypatch.setattr(row_groups, "MOST_ROWS", 2)
    assert not merge_groups(master)


def test_before_a_publication_only_what_is_overdue_is_merged(master: duckdb.DuckDBPyConnection) -> None:
    for number in range(5):
        add_run(master, number)
        assert not merge_groups(master, only_overdue=True)
    add_run(master, 5)
    assert merge_groups(master, only_overdue=True)
