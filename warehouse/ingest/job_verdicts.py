"""Verdicts on a job's runs as a whole, and the capacities that it found, renewed whenever the job has new runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import duckdb

from host.process_memory import WORTH_GIVING_BACK_BYTES, give_back_memory
from lab.errors import BundleError
from lab.metrics.records import RunRecord
from lab.validity import StudyRun, judge_study
from lab.validity.checks.repeats import FIGURES
from lab.validity.evidence import Lengths
from warehouse.bundles.imported_bundle import is_imported, read_known_of_all, read_record, requests_bytes
from warehouse.bundles.run_bundle import RUN_FILE, bundle_folder, read_run
from warehouse.ingest.bundle_rows import forget_rejection
from warehouse.ingest.imported import without_requests
from warehouse.ingest.master import MASTER_ERRORS, insert, transaction
from warehouse.queries.results import COMPARED
from warehouse.queries.rows import Row, dicts, records_of
from warehouse.schema.column import rows
from warehouse.schema.tables import CAPACITY_COLUMNS, STUDY_FINDING_COLUMNS, STUDY_VERDICT_COLUMNS

_CHANGED = """
    SELECT job_id FROM runs LEFT JOIN study_validity USING (job_id)
    GROUP BY job_id, runs_judged HAVING count(*) <> coalesce(runs_judged, 0) ORDER BY job_id
"""
#: Outputs of this many requests of each run are compared: enough for a verdict, and cheap to read for each new run.
MAX_OUTPUTS = 200
#: Jobs that run at the same time, with some to spare.
_JOBS_SEEN = 8
#: DuckDB evaluates list_contains once per distinct run of a block of rows, but IN for each row.
_ANSWERS = f"""
    SELECT run_id, map_from_entries(list((prompt_id, hash(answer.output_text)))), map_from_entries(list((prompt_id, [
        answer.prompt_tokens, answer.completion_tokens, coalesce(length(answer.output_text), 0)
    ]))) FROM (
        SELECT run_id, prompt_id, any_value(struct_pack(output_text, prompt_tokens, completion_tokens)) AS answer
        FROM {{records}}
        WHERE list_contains(?, run_id) AND is_completed AND prompt_id IS NOT NULL AND "index" < ? AND {COMPARED}
        GROUP BY run_id, prompt_id
    ) GROUP BY run_id
"""  # noqa: S608 - no user's text is in it
_PRICES = """
    SELECT DISTINCT study_id, json_extract(json, '$.price_usd_per_hour')::DOUBLE FROM studies JOIN runs USING (study_id)
    WHERE job_id = ?
"""
#: The last completed, valid attempt of each trial.
_TRIALS = """
    SELECT run_id FROM runs LEFT JOIN run_validity USING (run_id)
    WHERE job_id = ? AND search IS NOT NULL AND status = 'completed' AND is_valid IS NOT false
    QUALIFY row_number() OVER (PARTITION BY cell_key ORDER BY attempt DESC) = 1
"""
#: What is compared of each round.
_ROUNDS = f"""
    SELECT run_id, list(struct_pack(duration_s, {", ".join(FIGURES)}) ORDER BY round) FROM rounds
    WHERE list_contains(?, run_id) GROUP BY run_id
"""  # noqa: S608 - names of metrics
_METRICS = "SELECT m.* FROM run_metrics AS m JOIN runs USING (run_id) WHERE job_id = ? ORDER BY started_at, run_id"


_Seen = tuple[StudyRun, frozenset[str]]  # a run, and the names of its unrecorded fields


class SeenRuns:
    """Caches the runs of the jobs that were judged last, so that judging a job again reads only its new bundles."""

    def __init__(self) -> None:
        self._jobs: dict[str, dict[str, _Seen]] = {}

    def of(self, connection: duckdb.DuckDBPyConnection, root: Path, job_id: str, metrics: Sequence[Row]) -> list[_Seen]:
        """Return the runs with these metrics, except runs whose bundle was deleted: the job is judged from the rest."""
        seen = self._jobs.pop(job_id, {})
        new = {row["run_id"]: row for row in metrics if row["run_id"] not in seen}
        present = {run_id: found for run_id, row in new.items() if (found := _run(root, job_id, row))}
        answers = _answers(connection, list(present)) if present else {}
        rounds = dict(connection.execute(_ROUNDS, [list(present)]).fetchall())
        for run_id, (run, unrecorded) in present.items():
            outputs, lengths = answers.get(run_id, (None, None))
            compared = run._replace(outputs=outputs, lengths=lengths, rounds=rounds.get(run_id, ()))
            seen[run_id] = (compared, unrecorded)
        self._jobs[job_id] = seen  # at the end
        while len(self._jobs) > _JOBS_SEEN:
            del self._jobs[next(iter(self._jobs))]
        folders = {row["run_id"]: bundle_folder(root, job_id, row["run_id"]) for row in metrics}
        return [seen[run_id] for run_id, folder in folders.items() if run_id in seen and (folder / RUN_FILE).exists()]


def _answers(
    connection: duckdb.DuckDBPyConnection, run_ids: list[str]
) -> dict[str, tuple[dict[str, int], dict[str, Lengths]]]:
    """Return the hashes of outputs, and the lengths of the same requests, by run and prompt."""
    query = _ANSWERS.format(records=records_of(connection, run_ids))
    return {
        run_id: (outputs, {prompt: Lengths(*numbers) for prompt, numbers in lengths.items()})
        for run_id, outputs, lengths in connection.execute(query, [run_ids, MAX_OUTPUTS]).fetchall()
    }


def changed_jobs(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the jobs with runs that are not in their verdict yet."""
    return [job_id for (job_id,) in connection.execute(_CHANGED).fetchall()]


def judge_jobs(
    connection: duckdb.DuckDBPyConnection, root: Path, jobs: Iterable[str] | None = None, seen: SeenRuns | None = None
) -> dict[str, Exception | None]:
    """Judge these jobs, or all jobs with new runs. Return the error of each, None if it has none.

    Safe to repeat after being killed anywhere. Raises one of MASTER_ERRORS.
    """
    errors: dict[str, Exception | None] = {}
    for job_id in changed_jobs(connection) if jobs is None else jobs:
        try:
            _judge(connection, root, job_id, seen or SeenRuns())
            errors[job_id] = None
        except MASTER_ERRORS:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is: one job must not stop the others
            errors[job_id] = error
    return errors


def _judge(connection: duckdb.DuckDBPyConnection, root: Path, job_id: str, seen: SeenRuns) -> None:
    metrics = dicts(connection, _METRICS, [job_id])
    present = seen.of(connection, root, job_id, metrics)
    unrecorded = frozenset[str]().union(*(names for _, names in present))
    prices = dict(connection.execute(_PRICES, [job_id]).fetchall())
    runs = [run._replace(price_usd_per_hour=prices.get(run.run.study_id)) for run, _ in present]
    verdict = judge_study([run for run in runs if run.run.trial is None], unrecorded)
    judged = {
        "job_id": job_id,
        "runs_judged": len(metrics),
        "unjudged_checks": sorted({check.check for check in verdict.skipped}),
    }
    fired = [vars(finding) | {"job_id": job_id, "check_name": finding.check} for finding in verdict.findings]
    capacities = _capacities(connection, job_id, [run.run for run in runs], metrics)
    with transaction(connection):
        forget_rejection(connection, job_id)
        for table in ("study_validity", "study_findings", "capacities"):
            connection.execute(f"DELETE FROM {table} WHERE job_id = ?", [job_id])  # noqa: S608 - names are ours
        insert(connection, {"study_validity": rows(STUDY_VERDICT_COLUMNS, [judged])})
        insert(connection, {"study_findings": rows(STUDY_FINDING_COLUMNS, fired)})
        insert(connection, {"capacities": rows(CAPACITY_COLUMNS, capacities)})


def _capacities(
    connection: duckdb.DuckDBPyConnection, job_id: str, runs: Sequence[RunRecord], metrics: Sequence[Row]
) -> list[Row]:
    if all(run.trial is None for run in runs):
        return []
    from warehouse.ingest.capacity_rows import capacity_rows  # noqa: PLC0415 - SciPy, for the few jobs that search

    usable = {run_id for (run_id,) in connection.execute(_TRIALS, [job_id]).fetchall()}
    return capacity_rows(runs, metrics, usable)


def _run(root: Path, job_id: str, row: Row) -> tuple[StudyRun, frozenset[str]] | None:
    """Return the run and the names of its unrecorded fields, or None if its bundle was deleted: the job is judged from
    the others.
    """
    folder = bundle_folder(root, job_id, row["run_id"])
    metrics = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    try:
        if not is_imported(folder):
            return StudyRun(read_run(folder), metrics), frozenset()
        record, known = read_record(folder), read_known_of_all(folder)
    except BundleError:
        return None
    if requests_bytes(folder) >= WORTH_GIVING_BACK_BYTES:  # one import may be as large as a hundred runs
        give_back_memory()
    evidence = without_requests(record, known)
    return StudyRun(evidence.record, metrics), evidence.unrecorded
