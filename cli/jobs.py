"""Verbs of the queue: what waits, what runs, and what a user may do with a job."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from cli.output import jobs_table, print_json
from jobs import order, queue
from jobs.engine_logs import log_tail
from jobs.table import Job
from warehouse.app_db.engine import app_engine
from warehouse.settings import load_settings

JobId = Annotated[str, typer.Argument(help="As `drafthouse jobs` shows it.")]


def jobs(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """List the queue and what ran before."""
    found = queue.jobs(app_engine(load_settings().app_database_url))
    if as_json:
        print_json([_as_dict(job) for job in found])
    else:
        jobs_table(found)


def cancel(job_id: JobId) -> None:
    """Stop a job; the runs it has finished are kept."""
    queue.cancel(app_engine(load_settings().app_database_url), job_id)
    print(f"{job_id}: cancel requested")


def retry(
    job_id: JobId,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Measure its completed runs once more too; what was measured stays.")
    ] = False,
) -> None:
    """Put an ended job back into the queue; only its missing and failed runs are measured again."""
    queue.retry(app_engine(load_settings().app_database_url), job_id, everything=everything)
    print(f"{job_id} is queued again")


def priority(
    job_id: JobId, value: Annotated[int, typer.Argument(help="Higher runs earlier; a new job has 0.")]
) -> None:
    """Move a job that waits; of equal ones the older runs first. For less than 0 write `-- -5`."""
    order.reprioritise(app_engine(load_settings().app_database_url), job_id, value)
    print(f"{job_id} has priority {value}")


def logs(job_id: JobId, *, lines: Annotated[int, typer.Option(help="How many lines of its end.")] = 200) -> None:
    """Show the engine's log of a job."""
    print(log_tail(load_settings(), job_id, lines))


VERBS = (jobs, cancel, retry, priority, logs)


def _as_dict(job: Job) -> dict[str, Any]:
    row = asdict(job)
    row["study"] = job.study.model_dump(mode="json")
    row["progress"] = None if job.progress is None else job.progress.model_dump(mode="json")
    return row
