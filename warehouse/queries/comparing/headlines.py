"""The newest study of each target, whose answer stands for it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import duckdb

from warehouse.queries.rows import dicts


@dataclass(frozen=True)
class Headline:
    """The newest study of a target that was measured here with a baseline and another arm.

    `hardware` is None if its runs used several kinds.
    """

    target: str
    job_id: str
    study_name: str
    hardware: str | None
    measured_at: datetime


def headlines(con: duckdb.DuckDBPyConnection) -> list[Headline]:
    """Return one headline per target, from valid_latest_runs, the newest first."""
    return [Headline(**row) for row in dicts(con, _NEWEST)]


#: The newest is the one submitted last, as in the list of studies; one that is still being measured comes after those
#: that have ended.
_NEWEST = """
    SELECT r.target, r.job_id, any_value(r.study_name) AS study_name,
        CASE WHEN count(DISTINCT coalesce(r.hardware, '')) = 1 THEN any_value(r.hardware) END AS hardware,
        max(r.started_at) AS measured_at
    FROM valid_latest_runs AS r LEFT JOIN jobs AS j USING (job_id)
    WHERE r.origin = 'measured' AND r.concurrency IS NOT NULL AND r.pattern IS NOT NULL AND r.output_tok_per_s > 0
        AND NOT r.is_hidden
    GROUP BY r.target, r.job_id HAVING bool_or(r.is_baseline) AND bool_or(NOT r.is_baseline)
        AND count(DISTINCT coalesce(r.arm_id, r.arm)) > 1 -- controls alone are no answer
    QUALIFY row_number() OVER (
        PARTITION BY r.target
        ORDER BY coalesce(any_value(j.state) IN ('queued', 'running'), false),
            coalesce(any_value(j.submitted_at), min(r.started_at)) DESC, r.job_id DESC) = 1
    ORDER BY measured_at DESC, r.target
"""
