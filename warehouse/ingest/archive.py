"""Moves the requests of old runs from the warehouse's file to Parquet files, one per month and archiving.

Nothing is deleted: the view `request_records` reads both, and so does everything that reads the view. The table
`archived_runs` says which runs lie in which file. A file is complete and compared with its rows before they leave the
master, and is never changed afterwards, because older published files read it too.
"""

# ruff: noqa: S608 - names are ours
from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import duckdb

from host.settings import Settings
from lab.errors import DrafthouseError
from warehouse.bundles.pending import fsync
from warehouse.ingest.master import BLOCK_BYTES, WRITING, attaching, connect_master, only_ingester, refresh
from warehouse.ingest.publication import Master
from warehouse.ingest.rebuild import publish_instead, remove_database

_MONTH = "strftime(started_at AT TIME ZONE 'UTC', '%Y-%m')"
_MONTHS = f"""
    SELECT {_MONTH} AS month, count(DISTINCT run_id), count(*) FROM recent_requests JOIN runs USING (run_id)
    WHERE started_at < ? GROUP BY month ORDER BY month
"""
_ROWS = f"""
    SELECT * FROM recent_requests
    WHERE run_id IN (SELECT run_id FROM runs WHERE started_at < $before AND {_MONTH} = $month) ORDER BY rowid
"""
_TABLES = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'warehouse' ORDER BY table_name"
_SUM = "SELECT count(*), sum(hash(found)::HUGEINT) FROM ({}) AS found"


@dataclass(frozen=True)
class Month:
    """The runs and requests of a month that can be archived."""

    month: str  # as 2026-08
    runs: int
    requests: int


def old_months(connection: duckdb.DuckDBPyConnection, before: datetime) -> list[Month]:
    """Return the archivable months of the runs that began before a moment. Runs of unknown start stay."""
    return [Month(*row) for row in connection.execute(_MONTHS, [before]).fetchall()]


def archive(settings: Settings, before: datetime) -> list[Month]:
    """Move the requests of the runs that began before a moment, and publish. The warehouse's file gets smaller by them.

    A new master is written without them and replaces the old one, so that nothing has happened if this is killed,
    except for files that nobody reads. Raises UserError if an ingester runs, OSError or duckdb.Error if the disk is
    full.
    """
    fresh = settings.home / ".master.duckdb.archiving"
    try:
        with only_ingester(settings.home):
            with contextlib.closing(Master(settings.master_file, settings.warehouse_file)) as master:
                months = old_months(master.connection, before)
                if not months:
                    return []
                remove_database(fresh)
                files = _write_all(master.connection, settings.archive_dir, months, before)
                _copy_the_rest(master.connection, fresh, files)
            with connect_master(fresh) as opened:
                refresh(opened)
            publish_instead(settings, fresh)
    finally:
        remove_database(fresh)
    return months


def _write_all(
    connection: duckdb.DuckDBPyConnection, folder: Path, months: Sequence[Month], before: datetime
) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for leftover in folder.glob(".*.writing"):
        leftover.unlink()
    return [_write(connection, folder, month, before) for month in months]


def _write(connection: duckdb.DuckDBPyConnection, folder: Path, month: Month, before: datetime) -> Path:
    """Write the file of a month, and compare it with the rows."""
    file = f"requests-{month.month}-{uuid.uuid4().hex[:8]}.parquet"
    writing, chosen = folder / f".{file}.writing", {"before": before, "month": month.month}
    try:
        target = f"'{_quoted(writing)}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20480)"
        connection.execute(f"COPY ({_ROWS}) TO {target}", chosen)
        written = connection.execute(_SUM.format(f"FROM read_parquet('{_quoted(writing)}')")).fetchone()
        if written != connection.execute(_SUM.format(_ROWS), chosen).fetchone():
            raise DrafthouseError(f"{writing} reads back differently: nothing was moved")
        fsync(writing)
        writing.rename(folder / file)
        fsync(folder)
    finally:
        writing.unlink(missing_ok=True)
    return folder / file


def _copy_the_rest(connection: duckdb.DuckDBPyConnection, fresh: Path, files: Sequence[Path]) -> None:
    """Fill the new master with the old rows that are not in these files, and list which run is in which file."""
    connection.execute(attaching(fresh, "fresh", f"BLOCK_SIZE {BLOCK_BYTES}, {WRITING}"))
    try:
        connection.execute("COPY FROM DATABASE warehouse TO fresh (SCHEMA)")
        for file in files:
            archived = f"SELECT DISTINCT run_id, ?, now() FROM read_parquet('{_quoted(file)}')"
            connection.execute(f"INSERT INTO fresh.archived_runs (run_id, file, archived_at) {archived}", [file.name])
        for (name,) in connection.execute(_TABLES).fetchall():
            gone = "WHERE run_id NOT IN (SELECT run_id FROM fresh.archived_runs)" if name == "recent_requests" else ""
            connection.execute(f'INSERT INTO fresh."{name}" SELECT * FROM "{name}" {gone}')
    finally:
        connection.execute("DETACH fresh")


def _quoted(path: Path) -> str:
    return str(path.absolute()).replace("'", "''")
