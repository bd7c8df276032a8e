"""The outcome of jobs that have ended: what the warehouse knows of their runs that the queue does not."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import duckdb

from host.settings import Settings
from jobs.table import FINISHED, Job
from lab.errors import UserError
from warehouse.queries.connect import open_warehouse
from warehouse.queries.results import lost_runs


def with_invalid_runs(settings: Settings, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Return the jobs, those that have ended with their number of invalid runs.

    It is unknown before a run of the job is published, and while the warehouse cannot be read: the queue can be listed
    all the same.
    """
    ended = [job.job_id for job in jobs if job.state in FINISHED]
    counts: dict[str, int] = {}
    if ended and settings.warehouse_file.exists():
        with contextlib.suppress(UserError, duckdb.Error), open_warehouse(settings.warehouse_file) as con:
            counts = {job_id: invalid for job_id, (_, invalid) in lost_runs(con, ended).items()}
    return tuple(replace(job, runs_invalid=counts.get(job.job_id)) for job in jobs)
