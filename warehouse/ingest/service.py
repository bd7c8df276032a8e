"""The ingester, the only process that opens the master. `python -m warehouse.ingest.service` runs it until SIGTERM.

It can be killed at any line without losing anything: bundles are the truth, each is ingested in one transaction, and a
new ingester begins by publishing what its master holds.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pandas as pd  # noqa: F401 - Arrow imports it at its first conversion: better now than while a bundle waits
import sqlalchemy as sa

from lab.errors import BundleError, UserError
from warehouse.app_db.engine import app_engine
from warehouse.bundles import run_bundle
from warehouse.ingest.bundle_rows import add_bundle, record_rejection
from warehouse.ingest.job_verdicts import judge_jobs
from warehouse.ingest.master import (
    AppTables,
    connect_master,
    only_ingester,
    publish,
    read_app_tables,
    refresh,
    replicate_app_tables,
)
from warehouse.settings import Settings, load_settings

#: Bundles are ingested for at most this long before the master is published.
BUDGET_S = 2.0
#: Interval at which broken bundles are tried again: a disk that was away may have come back.
RETRY_REJECTED_S = 60.0
#: Pause after a full disk, or a master that cannot be opened.
RETRY_S = 2.0
_log = logging.getLogger("drafthouse.ingester")


@dataclass
class Ingester:
    """An open master, and what has been done with it so far."""

    settings: Settings
    connection: duckdb.DuckDBPyConnection
    app: sa.Engine
    published: bool = False  # whether the published file equals the master
    replicated: AppTables = field(default_factory=dict)
    rejected_at: dict[str, float] = field(default_factory=dict)  # monotonic seconds by path


def ingest_once(ingester: Ingester, budget_s: float = BUDGET_S) -> bool:
    """Ingest new bundles, replicate the app tables, publish. Return whether more bundles are waiting.

    Raises OSError or duckdb.Error if the disk is full or the master broken; call again with a new Ingester then.
    """
    deadline = time.monotonic() + budget_s
    more = False
    for folder in _new_bundles(ingester):
        if time.monotonic() > deadline:
            more = True
            break
        _ingest(ingester, folder)
    _replicate(ingester)  # before judging: a study's own price is judged with its runs
    if not more and judge_jobs(ingester.connection, ingester.settings.bundles):
        ingester.published = False
    if not ingester.published:
        publish(ingester.connection, ingester.settings.master_file, ingester.settings.warehouse_file)
        ingester.published = True
    return more


def _new_bundles(ingester: Ingester) -> Iterator[Path]:
    root = ingester.settings.bundles
    query = "select job_id || '/' || run_id from runs"
    known = {path for (path,) in ingester.connection.execute(query).fetchall()}
    waiting = time.monotonic() - RETRY_REJECTED_S
    known |= {path for path, tried_at in ingester.rejected_at.items() if tried_at > waiting}
    return (folder for folder in run_bundle.find_bundles(root) if str(folder.relative_to(root)) not in known)


def _ingest(ingester: Ingester, folder: Path) -> None:
    path = str(folder.relative_to(ingester.settings.bundles))
    try:
        add_bundle(ingester.connection, ingester.settings.bundles, folder)
    except BundleError as error:
        _reject(ingester, path, str(error))
    else:
        ingester.rejected_at.pop(path, None)
        ingester.published = False
        _log.info("ingested %s", path)


def _reject(ingester: Ingester, path: str, error: str) -> None:
    """Record why the bundle was rejected; the others are ingested regardless."""
    ingester.rejected_at[path] = time.monotonic()
    if record_rejection(ingester.connection, path, error):
        _log.warning("bundle %s was rejected: %s", path, error)
        ingester.published = False


def _replicate(ingester: Ingester) -> None:
    """Replicate the app tables if they changed. Ingestion goes on while the app database is away."""
    try:
        tables = read_app_tables(ingester.app)
    except sa.exc.DBAPIError as error:
        _log.warning("the app database cannot be read (%s): jobs in the warehouse are not up to date", error.orig)
        return
    if tables != ingester.replicated:
        replicate_app_tables(ingester.connection, tables)
        ingester.replicated = tables
        ingester.published = False


@contextlib.contextmanager
def open_ingester(settings: Settings, app: sa.Engine) -> Iterator[Ingester]:
    """Open the master. The caller holds `only_ingester`."""
    with connect_master(settings.master_file) as connection:
        refresh(connection)
        yield Ingester(settings, connection, app)


def ingest_all(settings: Settings) -> None:
    """Ingest and publish every bundle that exists now, then return. Raises UserError if an ingester runs."""
    app = app_engine(settings.app_database_url)
    try:
        with only_ingester(settings.home), open_ingester(settings, app) as ingester:
            while ingest_once(ingester):
                pass
    finally:
        app.dispose()


def run(settings: Settings, stop: threading.Event) -> None:
    """Ingest until `stop` is set. Raises UserError if another ingester runs or a database is of another revision."""
    app = app_engine(settings.app_database_url)
    with only_ingester(settings.home):
        while not stop.is_set():
            try:
                with open_ingester(settings, app) as ingester:
                    _log.info("ingesting %s", settings.bundles.absolute())
                    _ingest_until(stop, ingester)
            except (OSError, duckdb.OperationalError, duckdb.InternalError, duckdb.FatalException) as error:
                _log.error(
                    "%s cannot be written (%s): is the disk full? Nothing is lost; trying again in %g s",
                    *(settings.home.absolute(), str(error).splitlines()[0], RETRY_S),
                )
                stop.wait(RETRY_S)


def _ingest_until(stop: threading.Event, ingester: Ingester) -> None:
    while not stop.is_set():
        if not ingest_once(ingester):
            stop.wait(ingester.settings.ingest_every_s)


def main() -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        run(load_settings(), stop)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
