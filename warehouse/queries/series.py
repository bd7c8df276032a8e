"""What a job measured for a night of a series: read once, when its verdict is stored or it was imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.comparing.ratio_tables import arm_means
from warehouse.queries.rows import Row, dicts

_METRIC = "output_tok_per_s"
_JUDGED = "SELECT judgement_id FROM judgements WHERE job_id = ? AND cause = 'ended' AND tries = ?"
_RATIO = f"""
    SELECT ratio AS speedup, low, high FROM judged_arms
    WHERE judgement_id = ? AND arm = ? AND metric = '{_METRIC}' AND reading = 'usual' AND scope = 'overall'
"""  # noqa: S608 - names are ours
_CELLS = f"""
    SELECT count(*) FROM judged_arms WHERE judgement_id = ? AND arm = ? AND metric = '{_METRIC}'
        AND reading = 'usual' AND scope = 'cell' AND ratio IS NOT NULL
"""  # noqa: S608
_RUNS = """
    WITH cells AS (
        SELECT arm, workload_label, pattern, avg(output_tok_per_s) AS rate, sum(num_drafts) AS drafts,
            sum(num_accepted_tokens) AS accepted, bool_and(num_accepted_tokens IS NOT NULL) AS known,
            list(DISTINCT hardware) AS hardware, list(DISTINCT concat_ws(' ', engine, engine_version)) AS engines
        FROM valid_latest_runs WHERE job_id = $1 GROUP BY ALL
    )
    SELECT CASE WHEN min(rate) FILTER (arm = $2) > 0
            THEN exp(avg(ln(nullif(rate, 0))) FILTER (arm = $2)) END AS arm_tok_per_s,
        CASE WHEN min(rate) FILTER (arm = $3) > 0
            THEN exp(avg(ln(nullif(rate, 0))) FILTER (arm = $3)) END AS baseline_tok_per_s,
        CASE WHEN bool_and(known) FILTER (arm = $2) AND sum(drafts) FILTER (arm = $2) > 0
            THEN 1 + sum(accepted) FILTER (arm = $2) / sum(drafts) FILTER (arm = $2) END AS acceptance_length,
        array_to_string(list_sort(list_distinct(flatten(list(hardware)))), ', ') AS hardware,
        array_to_string(list_sort(list_distinct(flatten(list(engines) FILTER (arm = $2)))), ', ') AS engine_version
    FROM cells
"""
_INVALID = """
    SELECT why_invalid[1] FROM results WHERE job_id = ? AND is_valid = false ORDER BY started_at, run_id LIMIT 1
"""
_IMPORTED = """
    SELECT job_id, any_value(labels_json ->> '$.commit') FROM runs
    WHERE origin = 'imported' AND (labels_json ->> '$.series') = ? GROUP BY job_id ORDER BY max(started_at), job_id
"""
_BLOCKS = """
    WITH cells AS (
        SELECT job_id, repeat, coalesce(host, '') AS host, arm, avg(ln(output_tok_per_s)) AS rate, count(*) AS cells,
            CASE WHEN bool_and(num_accepted_tokens IS NOT NULL) AND sum(num_drafts) > 0
                THEN ln(1 + sum(num_accepted_tokens) / sum(num_drafts)) END AS length
        FROM valid_latest_runs WHERE list_contains($1, job_id) AND output_tok_per_s > 0 GROUP BY ALL
    )
    SELECT job_id, repeat, mine.rate - base.rate AS speedup, mine.length AS acceptance_length
    FROM cells AS mine JOIN cells AS base USING (job_id, repeat, host)
    WHERE mine.arm = $2 AND base.arm = $3 AND mine.cells = $4 AND base.cells = $4 ORDER BY ALL
"""


@dataclass(frozen=True)
class Measured:
    """The values of a night by their columns in the table, or why it has none."""

    values: Row
    why_invalid: str | None = None


def measured(
    con: duckdb.DuckDBPyConnection, job_id: str, tries: int, arms: tuple[str, str], cells: int
) -> Measured | None:
    """Return what an ended job measured of an arm and its baseline; None as long as its verdict is not stored.

    A night with fewer than the study's cells has no value: it would be a mean of others.
    """
    found = con.execute(_JUDGED, [job_id, tries]).fetchone()
    if found is None:
        return None
    ratios = dicts(con, _RATIO, [found[0], arms[0]])
    ((having,),) = con.execute(_CELLS, [found[0], arms[0]]).fetchall()
    if having < cells or not ratios or ratios[0]["speedup"] is None:
        reason = con.execute(_INVALID, [job_id]).fetchone()
        words = f"{having} of {cells} cells have a ratio to the baseline"
        return Measured({}, f"{words}: {reason[0]}" if reason and reason[0] else words)
    return Measured(ratios[0] | figures(con, job_id, *arms))


def figures(con: duckdb.DuckDBPyConnection, job_id: str, arm: str, baseline: str) -> Row:
    """Return acceptance length, tokens/s, hardware and engine of an arm, and tokens/s of its baseline, by the columns
    of nights.
    """
    return dicts(con, _RUNS, [job_id, arm, baseline])[0]


def compared(con: duckdb.DuckDBPyConnection, job_id: str) -> dict[str, Measured]:
    """Return by arm what any job measured, an imported one too. Raises QueryError for one without a baseline."""
    comparison = compare_study(con, job_id)
    found = {}
    for arm, mean in arm_means(comparison).items():
        ratio = mean.ratio
        if ratio is None:
            found[arm] = Measured({}, "it has no ratio to the baseline")
        else:
            values = {"speedup": ratio.value, "low": ratio.low, "high": ratio.high}
            found[arm] = Measured(values | figures(con, job_id, arm, comparison.baseline))
    return found


def imported_jobs(con: duckdb.DuckDBPyConnection, series: str) -> list[tuple[str, str | None]]:
    """Return the imported jobs with the label of this series, the first measured first, each with its label commit."""
    return con.execute(_IMPORTED, [series]).fetchall()


def blocks(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], arm: str, baseline: str, cells: int) -> list[Row]:
    """Return the logarithms of speedup and acceptance_length in each block of these jobs in which arm and baseline
    have all their cells.
    """
    return dicts(con, _BLOCKS, [list(jobs), arm, baseline, cells])
