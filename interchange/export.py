"""Exports of a study: bundles for another Drafthouse, or one file for other tools."""

from __future__ import annotations

import contextlib
import json
import shutil
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from host.files import sha256_of
from interchange.restore import MANIFEST, MANIFEST_FORMAT, MANIFEST_VERSION, VERDICTS
from interchange.vllm_json import vllm_results
from lab.errors import UserError
from warehouse.bundles.run_bundle import bundle_folder
from warehouse.queries.comparing.paired_runs import jobs_of
from warehouse.queries.comparing.stored import judgements_of
from warehouse.queries.rows import dicts

#: The format by the suffix of the file's name; any other name is a folder.
FORMATS = {".csv": "csv", ".parquet": "parquet", ".json": "vllm", ".jsonl": "vllm"}
#: The beginning of a text that spreadsheets run as a formula: other people choose the names of arms and imports.
FORMULA = r"^([=+@\t\r-])"
_RESULTS = "SELECT * FROM results WHERE job_id IN (SELECT unnest(?)) ORDER BY started_at, run_id"
_COMPARISONS = "SELECT * FROM comparisons WHERE job_id IN (SELECT unnest(?)) ORDER BY ALL"
_STUDIES = "SELECT DISTINCT study_id, toml FROM studies JOIN runs USING (study_id) WHERE job_id IN (SELECT unnest(?))"


def export(bundles: Path, con: duckdb.DuckDBPyConnection, study: str, to: Path) -> int:
    """Write the runs of a study and return how many. The suffix of `to` selects one of FORMATS or a folder of bundles.

    Raises QueryError for an unknown study, UserError for a target that is of an unknown kind, taken, or
    not writable. An existing file is replaced atomically: readers never see a half-written file.
    """
    jobs = jobs_of(con, study)
    try:
        if to.is_dir() and any(to.iterdir()):
            raise UserError(f"{to} is a folder that is not empty: choose a new or an empty one")
        if to.suffix[1:].isalpha() and to.suffix not in FORMATS and not to.is_dir():
            endings = ", ".join(FORMATS)
            raise UserError(
                f"{to} ends in {to.suffix}, and a file ends in {endings}; a folder's name has no such ending"
            )
        if is_folder(to):
            return _export_bundles(bundles, con, jobs, to)
        with _replacing(to) as writing:
            return _FILES[FORMATS[to.suffix]](con, jobs, writing)
    except OSError as error:
        raise UserError(f"{to} cannot be written: {error.strerror or error}") from None


def is_folder(to: Path) -> bool:
    """Return whether an export to this path is a folder of bundles."""
    return to.suffix not in FORMATS or to.is_dir()


def _export_bundles(bundles: Path, con: duckdb.DuckDBPyConnection, jobs: Sequence[str], to: Path) -> int:
    """Write the bundles and stored verdicts as they are, results.parquet, comparisons.parquet, each study as TOML,
    and a manifest with every file's digest.
    """
    query = "SELECT job_id, run_id FROM runs WHERE job_id IN (SELECT unnest(?)) ORDER BY job_id, run_id"
    runs = con.execute(query, [list(jobs)]).fetchall()
    with _replacing(to) as writing:
        writing.mkdir()
        for job_id, run_id in runs:
            source = bundle_folder(bundles, job_id, run_id)
            if not source.is_dir():
                raise UserError(
                    f"the bundle of run {job_id}/{run_id} is missing in {bundles}: the study cannot be exported"
                )
            shutil.copytree(source, writing / "bundles" / job_id / run_id)
        _write_parquet(con, jobs, writing / "results.parquet")
        pq.write_table(con.execute(_COMPARISONS, [list(jobs)]).to_arrow_table(), writing / "comparisons.parquet")
        _write_verdicts(con, jobs, writing / VERDICTS)
        for row in dicts(con, _STUDIES, [list(jobs)]):
            (writing / f"study-{row['study_id'][:12]}.toml").write_text(row["toml"], encoding="utf-8")
        (writing / MANIFEST).write_text(json.dumps(_manifest(writing, jobs), indent=1) + "\n", encoding="utf-8")
    return len(runs)


def _write_verdicts(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], to: Path) -> None:
    """Write a file for each judgement, as it lies beside the bundles."""
    for judgement in judgements_of(con, jobs):
        to.mkdir(exist_ok=True)
        (to / f"{judgement.judgement_id}.json").write_text(judgement.model_dump_json() + "\n", encoding="utf-8")


def _manifest(folder: Path, jobs: Sequence[str]) -> dict[str, object]:
    files = {str(path.relative_to(folder)): sha256_of(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    return {"format": MANIFEST_FORMAT, "version": MANIFEST_VERSION, "jobs": list(jobs), "files": files}


def _results(con: duckdb.DuckDBPyConnection, jobs: Sequence[str]) -> pa.Table:
    return con.execute(_RESULTS, [list(jobs)]).to_arrow_table()


def _write_parquet(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], path: Path) -> int:
    table = _results(con, jobs)
    pq.write_table(table, path)
    return table.num_rows


def _write_csv(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], path: Path) -> int:
    """Write CSV: null is an empty field, a list is JSON, and text that a spreadsheet would run begins with '."""
    table = _results(con, jobs)
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type):
            texts = [None if value is None else json.dumps(value) for value in table.column(index).to_pylist()]
            table = table.set_column(index, field.name, pa.array(texts, type=pa.string()))
        elif pa.types.is_string(field.type):
            plain = pc.replace_substring_regex(table.column(index), FORMULA, r"'\1")
            table = table.set_column(index, field.name, plain)
    csv.write_csv(table, path)
    return table.num_rows


def _write_vllm(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], path: Path) -> int:
    """Write one object per line, as vLLM's --append-result does."""
    results = vllm_results(con, jobs)
    path.write_text("".join(f"{json.dumps(result)}\n" for result in results), encoding="utf-8")
    return len(results)


_FILES = {"csv": _write_csv, "parquet": _write_parquet, "vllm": _write_vllm}


@contextlib.contextmanager
def _replacing(to: Path) -> Iterator[Path]:
    """Yield a temporary name beside `to`; what is written there is renamed to `to` at the end."""
    to.parent.mkdir(parents=True, exist_ok=True)
    writing = to.with_name(f".{to.name}.{uuid.uuid4().hex[:8]}.writing")
    try:
        yield writing
        if to.is_dir():
            to.rmdir()
        writing.replace(to)
    finally:
        if writing.is_dir():
            shutil.rmtree(writing, ignore_errors=True)
        writing.unlink(missing_ok=True)
