"""Rebuilds the warehouse from bundles, and from the verdicts that are stored beside them.

With an object store everything in it is fetched first. What still waits for its upload is left out: the ingester takes
it when it is there.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path

from host.settings import Settings
from warehouse.app_db.engine import open_engine
from warehouse.bundles.pending import fsync, is_pending
from warehouse.bundles.run_bundle import find_bundles
from warehouse.bundles.store import open_store
from warehouse.ingest.app_tables import read_app_tables, replicate_app_tables
from warehouse.ingest.bundle_rows import add_bundles, batches, record_rejection, rejection
from warehouse.ingest.job_verdicts import judge_jobs
from warehouse.ingest.judgements import read_stored
from warehouse.ingest.master import connect_master, create_master, only_ingester
from warehouse.ingest.opened import Opened
from warehouse.ingest.publication import Master
from warehouse.ingest.row_groups import RUNS_A_GROUP

_log = logging.getLogger("drafthouse.ingester")


def rebuild(settings: Settings) -> None:
    """Build a new master from the bundles and publish it; the old files stay in place until it is complete.

    Raises UserError if an ingester runs, OSError or duckdb.Error if the disk is full.
    """
    fresh = settings.home / ".master.duckdb.rebuilding"
    try:
        with open_engine(settings.app_database_url) as app, only_ingester(settings.home):
            if (store := open_store(settings)) is not None:
                store.fetch_all(settings.bundles, store.paths())
            remove_database(fresh)
            create_master(fresh)
            with connect_master(fresh) as connection:
                runs, opened = 0, Opened(settings.home, settings.bundles)
                for path, reason in opened.left_out().items():
                    record_rejection(connection, path, reason)
                for batch in _batches(settings.bundles, opened, but_pending=store is not None):
                    with opened.reading(str(folder.relative_to(settings.bundles)) for folder in batch):
                        rejected = add_bundles(connection, settings.bundles, batch)
                    for folder, error in rejected.items():
                        record_rejection(connection, str(folder.relative_to(settings.bundles)), rejection(error))
                    runs += len(batch)
                    if runs >= RUNS_A_GROUP:  # the rows of these runs become one group
                        connection.execute("CHECKPOINT")
                        runs = 0
                replicate_app_tables(connection, read_app_tables(app))
                for job_id, failed in judge_jobs(connection, settings.bundles).items():
                    if failed is not None:
                        record_rejection(connection, job_id, rejection(failed))
                for error in read_stored(connection, settings.bundles)[2]:
                    _log.warning("%s", error)
            publish_instead(settings, fresh)
    finally:
        remove_database(fresh)


def _batches(bundles: Path, opened: Opened, *, but_pending: bool) -> Iterator[list[Path]]:
    """Divide all bundles into batches; bundles with which a process died come last, alone."""
    suspects: list[Path] = []

    def others() -> Iterator[Path]:
        for folder in find_bundles(bundles):
            path = str(folder.relative_to(bundles))
            if but_pending and is_pending(bundles, path):
                continue
            if opened.is_suspect(path):
                suspects.append(folder)
            else:
                yield folder

    yield from batches(others())
    left_out = opened.left_out()
    yield from ([folder] for folder in suspects if str(folder.relative_to(bundles)) not in left_out)


def publish_instead(settings: Settings, fresh: Path) -> None:
    """Replace the master by `fresh`, which is closed and so has no log, and publish it.

    The old master's log is removed first, or it would be replayed on the new one. If the process is killed between the
    two, the old master lacks its latest runs, and the ingester reads them from their bundles again.
    """
    _log_of(settings.master_file).unlink(missing_ok=True)
    fsync(fresh)
    fresh.rename(settings.master_file)
    fsync(settings.master_file.parent)
    with contextlib.closing(Master(settings.master_file, settings.warehouse_file)) as master:
        master.publish(only_grown=False)


def remove_database(database: Path) -> None:
    for path in (database, _log_of(database)):
        path.unlink(missing_ok=True)


def _log_of(database: Path) -> Path:
    return database.with_name(f"{database.name}.wal")
