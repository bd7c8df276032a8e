"""One bundle into the master: everything it says in one transaction, exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa

from lab import metrics
from lab.errors import BundleError
from lab.validity import judge
from warehouse.bundles import Bundle, read_bundle, read_log
from warehouse.columns import rows
from warehouse.master import transaction
from warehouse.prompt_latencies import prompt_latencies
from warehouse.request_columns import REQUEST_COLUMNS, TELEMETRY_COLUMNS
from warehouse.run_columns import RUN_COLUMNS
from warehouse.schema import FINDING_COLUMNS, METRIC_COLUMNS, VERDICT_COLUMNS

Tables = Mapping[str, pa.Table]

#: What a bundle can be wrong in. A full disk is none of these: it is no reason to reject a bundle.
_WRONG = (BundleError, ValueError, TypeError, ArithmeticError, pa.ArrowException)
_REFUSED = (duckdb.ConstraintException, duckdb.ConversionException, duckdb.InvalidInputException)


def add_bundle(connection: duckdb.DuckDBPyConnection, root: Path, folder: Path) -> None:
    """Ingest one bundle. Raises BundleError where it is broken, duckdb.Error where the master cannot grow."""
    try:
        tables = bundle_tables(root, folder)
    except _WRONG as error:
        raise BundleError(f"{type(error).__name__}: {error}") from error
    with transaction(connection):
        connection.execute("DELETE FROM rejected_bundles WHERE path = ?", [str(folder.relative_to(root))])
        try:
            insert(connection, {**tables, "prompt_lists": _new_lists(connection, tables["prompt_lists"])})
        except _REFUSED as error:
            raise BundleError(f"the warehouse refuses it: {error}") from error


def record_rejection(connection: duckdb.DuckDBPyConnection, path: str, error: str) -> bool:
    """Note why the bundle at `path` (below the bundles) is not in; False where just that is noted already."""
    known = connection.execute("SELECT error FROM rejected_bundles WHERE path = ?", [path]).fetchone()
    if known == (error,):
        return False
    row = {"path": path, "error": error, "rejected_at": datetime.now(UTC)}
    with transaction(connection):
        connection.execute("DELETE FROM rejected_bundles WHERE path = ?", [path])
        insert(connection, {"rejected_bundles": pa.Table.from_pylist([row])})
    return True


def bundle_tables(root: Path, folder: Path) -> Tables:
    """The rows of a bundle by table. Raises one of _WRONG."""
    bundle = read_bundle(folder)
    run = bundle.run
    named = (folder.parent.name, folder.name)
    if named != (run.job_id, run.run_id):
        raise BundleError(f"{folder.relative_to(root)} holds run {run.job_id}/{run.run_id}: was it copied or renamed?")
    measured = metrics.measure(run, bundle.requests, bundle.telemetry)
    verdict = judge(run, bundle.requests, bundle.telemetry, measured, read_log(folder))
    requests = rows(REQUEST_COLUMNS, bundle.requests)
    latencies, prompts = prompt_latencies(requests)
    return {
        "runs": rows(RUN_COLUMNS, [run]),
        "request_records": _of_run(bundle, requests),
        "prompt_latencies": _of_run(bundle, latencies),
        "prompt_lists": prompts,
        "telemetry": _of_run(bundle, rows(TELEMETRY_COLUMNS, bundle.telemetry)),
        "run_metrics": _of_run(bundle, rows(METRIC_COLUMNS, [measured])),
        "verdicts": _of_run(bundle, rows(VERDICT_COLUMNS, [verdict])),
        "findings": _of_run(bundle, rows(FINDING_COLUMNS, verdict.findings)),
        "histograms": _of_run(bundle, _histogram_rows(bundle)),
    }


def insert(connection: duckdb.DuckDBPyConnection, tables: Tables) -> None:
    """Append rows by column name, inside the caller's transaction."""
    for name, table in tables.items():
        connection.register("incoming", table)
        try:
            connection.execute(f'INSERT INTO "{name}" BY NAME SELECT * FROM incoming')  # noqa: S608 - names are ours
        finally:
            connection.unregister("incoming")


def _new_lists(connection: duckdb.DuckDBPyConnection, lists: pa.Table) -> pa.Table:
    """Those that no earlier run has brought."""
    keys = lists["prompts_id"].to_pylist()
    known = connection.execute("SELECT prompts_id FROM prompt_lists WHERE prompts_id IN (SELECT unnest(?))", [keys])
    return lists.slice(0, 0) if known.fetchall() else lists


def _of_run(bundle: Bundle, table: pa.Table) -> pa.Table:
    return table.add_column(0, "run_id", pa.array([bundle.run.run_id] * table.num_rows, type=pa.string()))


def _histogram_rows(bundle: Bundle) -> pa.Table:
    counted = [
        (metric, bucket, count)
        for metric, buckets in metrics.histograms(bundle.run, bundle.requests).items()
        for bucket, count in buckets.items()
    ]
    names, buckets, counts = zip(*counted, strict=True) if counted else ((), (), ())
    return pa.table(
        {
            "metric": pa.array(names, type=pa.string()),
            "bucket": pa.array(buckets, type=pa.int32()),
            "count": pa.array(counts, type=pa.int64()),
        }
    )
