"""`drafthouse logs`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.arguments import JobName
from cli.home import ready_settings
from jobs import queue
from jobs.engine_logs import log_tail
from warehouse.app_db.engine import app_engine


def logs(job: JobName, *, lines: Annotated[int, typer.Option(help="How many lines to show.")] = 200) -> None:
    """Show the end of the engine's log of a job."""
    settings = ready_settings()
    job_id = queue.job_id_of(app_engine(settings.app_database_url), job)
    tail = log_tail(settings.logs_dir, settings.bundles, job_id, lines)
    print(tail or f"No engine of job {job_id} has written a log yet.")
