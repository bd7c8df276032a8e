"""The report of a tuning, from the published runs of its job."""

from __future__ import annotations

from dataclasses import replace

import duckdb

from lab.comparison.verdict import verdicts
from lab.schedule.tuning import RunResult
from lab.study import Study
from lab.study.plan import PlannedRun
from lab.tuning.report import Measured, Report, report
from warehouse.queries.comparing.comparisons import Pair, StudyComparison, compare_study
from warehouse.queries.rows import Row, dicts

#: The last attempt at a cell that counts, or else the last attempt, as the worker saw it.
_RUNS = """
    SELECT arm, pattern, repeat, status = 'completed' AND is_valid IS NOT false AS counts,
        status = 'completed' AND is_valid IS false AS is_disturbed, output_tok_per_s, acceptance_per_position,
        warmup_s, window_s, engine_start_s
    FROM results WHERE job_id = ?
    QUALIFY row_number() OVER (PARTITION BY cell_key ORDER BY counts DESC, attempt DESC, started_at DESC) = 1
"""


_TUNED = """
    SELECT studies.json FROM jobs JOIN studies USING (study_id)
    WHERE job_id = ? AND json_extract_string(studies.json, '$.tune') IS NOT NULL
"""


def tuning_report(con: duckdb.DuckDBPyConnection, job_id: str, study: Study) -> Report | None:
    """Return the report of the job of a study that is a tuning; None before its first results are published.

    What was measured at the end is judged as the study's answer judges it.
    """
    found = _report(con, job_id, study)
    if found is None or not found.final:
        return found
    pairs = _of_arms(compare_study(con, job_id), {cell.arm for cell in found.final}).pairs
    by_arm_and_load = {(pair.candidate.arm, pair.cell.concurrency): pair for pair in pairs}
    return replace(
        found, final=tuple(_as_judged(cell, by_arm_and_load.get((cell.arm, cell.load))) for cell in found.final)
    )


def answered(con: duckdb.DuckDBPyConnection, comparison: StudyComparison) -> StudyComparison:
    """The comparison that the study's answer rests on: of a tuning the arms that were measured at the end, judged as a
    table of their own. The race before it chose them, and most of its arms were given up early.
    """
    if len(comparison.jobs) != 1:
        return comparison
    (job_id,) = comparison.jobs
    row = con.execute(_TUNED, [job_id]).fetchone()
    found = None if row is None else _report(con, job_id, Study.model_validate_json(row[0]))
    if found is None or not found.final:
        return comparison
    return _of_arms(comparison, {cell.arm for cell in found.final})


def _of_arms(comparison: StudyComparison, arms: set[str]) -> StudyComparison:
    pairs = [pair for pair in comparison.pairs if pair.candidate.arm in arms]
    if len(pairs) == len(comparison.pairs):
        return comparison
    compared = [pair.comparison for pair in pairs]
    judged, strictly = verdicts(compared, strict=comparison.strict), verdicts(compared, strict=True)
    again = [
        replace(pair, verdict=verdict, strictly=strict)
        for pair, verdict, strict in zip(pairs, judged, strictly, strict=True)
    ]
    return replace(comparison, pairs=tuple(again))


def _as_judged(cell: Measured, pair: Pair | None) -> Measured:
    if pair is None or pair.ratio is None:
        return cell
    interval, basis = pair.ratio, pair.comparison.basis
    return replace(
        cell, ratio=interval.value, low=interval.low, high=interval.high, verdict=pair.verdict.word, basis=basis
    )


def _report(con: duckdb.DuckDBPyConnection, job_id: str, study: Study) -> Report | None:
    rows = {(row["arm"], row["pattern"], row["repeat"]): row for row in dicts(con, _RUNS, [job_id])}

    def find(run: PlannedRun) -> RunResult | None:
        row = rows.get((run.arm.name, run.load.name, run.repeat))
        return None if row is None else _result(row)

    return report(study, find)


def _result(row: Row) -> RunResult:
    return RunResult(
        speed=row["output_tok_per_s"] if row["counts"] else None,
        accepted=tuple(row["acceptance_per_position"] or ()),
        took_s=(row["warmup_s"] or 0.0) + (row["window_s"] or 0.0),
        engine_start_s=row["engine_start_s"] or 0.0,
        is_disturbed=row["is_disturbed"],
    )
