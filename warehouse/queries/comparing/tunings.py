"""The report of a tuning, from the published runs of its job."""

from __future__ import annotations

import duckdb

from lab.schedule.tuning import RunResult
from lab.study import Study
from lab.study.plan import PlannedRun
from lab.tuning.report import Report, report
from warehouse.queries.comparing.paired_runs import Row, dicts

#: Of attempts at the same cell the last one that counts, or else the last one, as the worker saw it.
_RUNS = """
    SELECT arm, pattern, repeat, status = 'completed' AND is_valid IS NOT false AS counts, output_tok_per_s,
        acceptance_per_position, warmup_s, window_s, engine_start_s
    FROM results WHERE job_id = ?
    QUALIFY row_number() OVER (PARTITION BY cell_key ORDER BY counts DESC, attempt DESC, started_at DESC) = 1
"""


def tuning_report(con: duckdb.DuckDBPyConnection, job_id: str, study: Study) -> Report | None:
    """Return the report of the job of a study that is a tuning; None before its first results are published."""
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
    )
