"""The rows of one bundle in all tables of the master, inserted in one transaction and exactly once."""

from __future__ import annotations

import json
import traceback
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from host.process_memory import WORTH_GIVING_BACK_BYTES, give_back_memory
from lab.errors import BundleError
from lab.metrics.groups import groups
from lab.metrics.measure import histograms, measure, samples_ms
from lab.metrics.rounds import rounds_of
from lab.validity import Verdict, judge
from warehouse.bundles.imported_bundle import ImportedRecord, is_imported, read_imported, requests_bytes
from warehouse.bundles.provenance import PROVENANCE_FILE, Provenance, read_provenance
from warehouse.bundles.record_file import refuse_bomb
from warehouse.bundles.run_bundle import REQUESTS_FILE, TELEMETRY_FILE, Bundle, read_bundle, read_log
from warehouse.bundles.table_sizes import MAX_TABLE_BYTES
from warehouse.ingest import imported
from warehouse.ingest.master import MASTER_ERRORS, Tables, insert, transaction
from warehouse.schema.column import rows
from warehouse.schema.request_columns import TELEMETRY_COLUMNS, prompt_latencies, request_rows
from warehouse.schema.run_columns import RUN_COLUMNS
from warehouse.schema.tables import (
    FINDING_COLUMNS,
    METRIC_COLUMNS,
    REQUEST_GROUP_COLUMNS,
    ROUND_COLUMNS,
    RUN_STARTED_AT,
    VERDICT_COLUMNS,
    WAREHOUSE,
)

#: The most bundles, and their most bytes in sum, that are ingested together (a single one may be larger): all of
#: their rows are in memory at once.
_MOST_TOGETHER, _MOST_BYTES_TOGETHER = 32, 24 * 2**20
#: A longer text of a request is cut here and is whole only in its bundle: no column holds texts of any length.
MOST_CHARACTERS = 2**20
#: Up to this many rows are copied into one piece, because DuckDB takes as long for a small piece of a column as for a
#: large one.
_FEW_ROWS = 10_000
#: A group of requests about which nothing is known.
_GROUP: dict[str, Any] = dict.fromkeys(column.name for column in REQUEST_GROUP_COLUMNS)
#: Errors for values that no column can hold.
UNSTORABLE = (ValueError, TypeError, ArithmeticError, pa.ArrowException)


def batches(folders: Iterable[Path]) -> Iterator[list[Path]]:
    """Divide bundles into batches that are ingested together."""
    batch: list[Path] = []
    room_bytes = _MOST_BYTES_TOGETHER
    for folder in folders:
        size_bytes = _requests_bytes(folder)
        if batch and (len(batch) == _MOST_TOGETHER or size_bytes > room_bytes):
            yield batch
            batch, room_bytes = [], _MOST_BYTES_TOGETHER
        batch.append(folder)
        room_bytes -= size_bytes
    if batch:
        yield batch


def _requests_bytes(folder: Path) -> int:
    """Return the size of a bundle's requests, nearly all of it; 0 for a bundle without requests, or a broken one.

    Another Drafthouse may have packed its file as it likes, so its bundles are ingested alone.
    """
    try:
        if (folder / PROVENANCE_FILE).exists():
            return _MOST_BYTES_TOGETHER + 1
        return (folder / REQUESTS_FILE).stat().st_size
    except OSError:
        return 0


def add_bundles(connection: duckdb.DuckDBPyConnection, root: Path, folders: Iterable[Path]) -> dict[Path, BundleError]:
    """Ingest bundles in one transaction, in two thirds of the time that they take one by one.

    Return the errors of those that could not be ingested, because they are broken or our code has a bug. Raises one of
    MASTER_ERRORS if the master cannot grow; some of the bundles may be ingested by then.
    """
    tables: dict[Path, Tables] = {}
    rejected: dict[Path, BundleError] = {}
    for folder in folders:
        try:
            tables[folder] = bundle_tables(root, folder)
            if _is_large_import(folder):
                give_back_memory()  # of the bundle, before DuckDB has its rows too
        except Exception as error:  # noqa: BLE001 - whatever it is: one bundle must not stop the others
            rejected[folder] = _caused(f"{type(error).__name__}: {error}", error)
    return rejected | _add(connection, root, tables)


def _add(connection: duckdb.DuckDBPyConnection, root: Path, tables: Mapping[Path, Tables]) -> dict[Path, BundleError]:
    """Insert the rows of bundles in one transaction; if that fails, each bundle's rows in one of their own."""
    paths = [str(folder.relative_to(root)) for folder in tables]
    try:
        with transaction(connection):
            connection.execute("DELETE FROM rejected_bundles WHERE path IN (SELECT unnest(?))", [paths])
            _refuse_second(connection, tables.values())
            insert(connection, _new_lists(connection, _joined(tables.values())))
    except MASTER_ERRORS:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is
        if len(tables) == 1:
            return dict.fromkeys(tables, _caused(f"the warehouse refuses it: {error}", error))
        results = [_add(connection, root, {folder: of_bundle}) for folder, of_bundle in tables.items()]
        return {folder: error for rejected in results for folder, error in rejected.items()}
    return {}


def _caused(sentence: str, cause: Exception) -> BundleError:
    error = BundleError(sentence)
    error.__cause__ = cause
    return error


def _joined(bundles: Collection[Tables]) -> Tables:
    """Return the rows of all bundles by table."""
    joined: dict[str, pa.Table] = {}
    for name in dict.fromkeys(name for tables in bundles for name in tables):
        table = pa.concat_tables([tables[name] for tables in bundles if name in tables], promote_options="default")
        joined[name] = table.combine_chunks() if table.num_rows < _FEW_ROWS else table
    return joined


def _refuse_second(connection: duckdb.DuckDBPyConnection, bundles: Iterable[Tables]) -> None:
    """Raise BundleError for a run that the master has already, or that two of the bundles have."""
    run_ids = [tables["runs"]["run_id"][0].as_py() for tables in bundles]
    query = "SELECT run_id, job_id FROM runs WHERE run_id IN (SELECT unnest(?))"
    for run_id, job_id in connection.execute(query, [run_ids]).fetchall():
        raise BundleError(f"it has the run {run_id} of job {job_id} already")
    if len(set(run_ids)) < len(run_ids):
        raise BundleError("two of the bundles have the same run")


def rejection(error: Exception) -> str:
    """Return the text of a rejection: a sentence, and a traceback unless the error names a problem of the file."""
    if isinstance(error, BundleError) and (error.__cause__ is None or isinstance(error.__cause__, BundleError)):
        return str(error)
    sentence = str(error) if isinstance(error, BundleError) else f"{type(error).__name__}: {error}"
    return f"{sentence}\n{''.join(traceback.format_exception(error.__cause__ or error))}"


def record_rejection(connection: duckdb.DuckDBPyConnection, path: str, error: str) -> bool:
    """Record why the bundle at `path` (relative to the bundles) was rejected, or why the job at `path` could not be
    judged; False if that is recorded already.
    """
    recorded = connection.execute("SELECT error FROM rejected_bundles WHERE path = ?", [path]).fetchone()
    if recorded == (error,):
        return False
    row = {"path": path, "error": error, "rejected_at": datetime.now(UTC)}
    with transaction(connection):
        forget_rejection(connection, path)
        insert(connection, {"rejected_bundles": pa.Table.from_pylist([row])})
    return True


def forget_rejection(connection: duckdb.DuckDBPyConnection, path: str) -> None:
    connection.execute("DELETE FROM rejected_bundles WHERE path = ?", [path])


def forget_removed(connection: duckdb.DuckDBPyConnection, root: Path) -> bool:
    """Forget the rejections of bundles and jobs that no longer exist. Return whether there were any."""
    paths = [path for (path,) in connection.execute("SELECT path FROM rejected_bundles").fetchall()]
    gone = [path for path in paths if not (root / path).exists()]
    if gone:
        connection.execute("DELETE FROM rejected_bundles WHERE path IN (SELECT unnest(?))", [gone])
    return bool(gone)


_OF_RUNS = [
    name for name, table in WAREHOUSE.tables.items() if "run_id" in table.columns and not name.startswith("published_")
]
_FORGET = "DELETE FROM {} WHERE {} IN (SELECT unnest(?))"


def forget_runs(connection: duckdb.DuckDBPyConnection, paths: Iterable[str]) -> None:
    """Remove all rows of the runs of these bundles, and the verdicts and capacities of their jobs."""
    jobs, run_ids = zip(*(path.split("/") for path in paths), strict=True)
    with transaction(connection):
        for name in _OF_RUNS:
            connection.execute(_FORGET.format(name, "run_id"), [list(run_ids)])
        for name in ("study_validity", "study_findings", "capacities"):
            connection.execute(_FORGET.format(name, "job_id"), [sorted(set(jobs))])


def bundle_tables(root: Path, folder: Path) -> Tables:
    """Return the rows of a measured or imported bundle by table. Raises BundleError, or one of UNSTORABLE."""
    if (folder / PROVENANCE_FILE).exists():
        for name in (REQUESTS_FILE, TELEMETRY_FILE):
            if (folder / name).exists():
                refuse_bomb(folder / name, MAX_TABLE_BYTES)
    tables = _imported_tables(root, folder) if is_imported(folder) else _measured_tables(root, folder)
    return {**tables, "recent_requests": _cut(tables["recent_requests"])}


def _cut(requests: pa.Table) -> pa.Table:
    """Cut texts that are longer than any request needs."""
    for number, field in enumerate(requests.schema):
        texts = requests.column(number)
        if pa.types.is_string(field.type) and (pc.max(pc.utf8_length(texts)).as_py() or 0) > MOST_CHARACTERS:
            requests = requests.set_column(number, field, pc.utf8_slice_codeunits(texts, 0, MOST_CHARACTERS))
    return requests


def _measured_tables(root: Path, folder: Path) -> Tables:
    bundle = read_bundle(folder)
    run = bundle.run
    _refuse_renamed(root, folder, run.job_id, run.run_id)
    latencies_ms = samples_ms(bundle.requests.completed)
    measured = measure(run, bundle.requests, bundle.telemetry, latencies_ms)
    verdict = judge(run, bundle.requests, bundle.telemetry, measured, read_log(folder, run))
    requests = request_rows(bundle.requests, bundle.run.workload.score)
    latencies, prompts = prompt_latencies(requests)
    of_run = {
        "recent_requests": requests,
        "prompt_latencies": latencies,
        "telemetry": rows(TELEMETRY_COLUMNS, bundle.telemetry),
        "run_metrics": rows(METRIC_COLUMNS, [measured]),
        "histograms": _histogram_rows(histograms(run, latencies_ms)),
        "request_groups": rows(REQUEST_GROUP_COLUMNS, [_GROUP | group for group in groups(run, bundle.requests)]),
    }
    of_run |= _verdict_rows(verdict) | {"rounds": _round_rows(bundle)}
    origin, row = read_provenance(folder), rows(RUN_COLUMNS, [run])
    row = row if origin is None else _imported_row(row, origin, run.circumstances.drafthouse_revision)
    return _of_run(row, of_run) | {"prompt_lists": prompts}


def _round_rows(bundle: Bundle) -> pa.Table:
    values = [
        {
            "round": each.number,
            "started_at": datetime.fromisoformat(each.window.started_at),
            "start_s": each.window.start_s,
            "end_s": each.window.end_s,
            **{column.name: each.data.value(column.name) for column in METRIC_COLUMNS},
        }
        for each in rounds_of(bundle.run, bundle.requests, bundle.telemetry)
    ]
    return rows(ROUND_COLUMNS, values)


def _imported_row(row: pa.Table, origin: Provenance, revision: str | None) -> pa.Table:
    """Return the row of a run that was measured elsewhere, with its origin and who imported it."""
    labels = json.dumps(origin.labels, ensure_ascii=False, sort_keys=True)
    values = {"origin": "imported", "tool": "drafthouse", "tool_version": revision, "labels_json": labels}
    for name, value in values.items():
        field = row.schema.field(name)
        row = row.set_column(row.schema.get_field_index(name), field, pa.array([value], type=field.type))
    return row


def _imported_tables(root: Path, folder: Path) -> Tables:
    record = read_imported(folder)
    _refuse_renamed(root, folder, record.job_id, record.run.run_id)
    if _is_large_import(folder):
        give_back_memory()
    return imported_tables(record)


def _is_large_import(folder: Path) -> bool:
    """Return whether it may be as large as a hundred runs."""
    return is_imported(folder) and requests_bytes(folder) >= WORTH_GIVING_BACK_BYTES


def imported_tables(record: ImportedRecord) -> Tables:
    """Return the rows of an imported run by table. Raises one of UNSTORABLE for figures that no column can hold."""
    run, evidence = record.run, imported.as_evidence(record)
    of_run = {
        "recent_requests": imported.request_rows(evidence),
        "run_metrics": rows(METRIC_COLUMNS, [run.metrics]),
        "histograms": _histogram_rows({} if run.requests is None else imported.histograms(run.requests)),
        "imported_figures": imported.figure_rows(run),
    }
    of_run |= _verdict_rows(imported.verdict_on(evidence))
    return _of_run(imported.run_rows(record), of_run)


def _refuse_renamed(root: Path, folder: Path, job_id: str, run_id: str) -> None:
    if (folder.parent.name, folder.name) != (job_id, run_id):
        raise BundleError(f"{folder.relative_to(root)} holds run {job_id}/{run_id}: was it copied or renamed?")


def _verdict_rows(verdict: Verdict) -> dict[str, pa.Table]:
    return {"run_validity": rows(VERDICT_COLUMNS, [verdict]), "findings": rows(FINDING_COLUMNS, verdict.findings)}


def _new_lists(connection: duckdb.DuckDBPyConnection, tables: Tables) -> Tables:
    """Drop lists of prompts that the master already has. An imported run has no list: its file has no prompts."""
    if (lists := tables.get("prompt_lists")) is None:
        return tables
    keys: list[Any] = lists["prompts_id"].to_pylist()
    query = "SELECT prompts_id FROM prompt_lists WHERE prompts_id IN (SELECT unnest(?))"
    known = {key for (key,) in connection.execute(query, [keys]).fetchall()}
    new = {key: number for number, key in enumerate(keys) if key not in known}
    return {**tables, "prompt_lists": lists.take(pa.array(new.values(), type=pa.int64()))}


def _of_run(run: pa.Table, tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Return a run's row and all rows that belong to it, with its id."""
    run_id, started_at = run["run_id"][0], run["started_at"][0]
    requests = tables["recent_requests"]
    begun = requests.append_column(RUN_STARTED_AT.name, pa.repeat(started_at, requests.num_rows))
    named = {
        name: table.add_column(0, "run_id", pa.repeat(run_id, table.num_rows))
        for name, table in {**tables, "recent_requests": begun}.items()
    }
    return {"runs": run, **named}


def _histogram_rows(histograms: Mapping[str, Mapping[int, int]]) -> pa.Table:
    counts_of = [(metric, bucket, count) for metric, buckets in histograms.items() for bucket, count in buckets.items()]
    names, buckets, counts = zip(*counts_of, strict=True) if counts_of else ((), (), ())
    return pa.table(
        {
            "metric": pa.array(names, type=pa.string()),
            "bucket": pa.array(buckets, type=pa.int32()),
            "count": pa.array(counts, type=pa.int64()),
        }
    )
