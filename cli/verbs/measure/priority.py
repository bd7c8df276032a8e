"""`drafthouse priority`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.arguments import JobName
from cli.home import ready_settings
from jobs import order, queue
from jobs.access.local import local_actor
from warehouse.app_db.engine import app_engine


def priority(
    job: JobName, value: Annotated[int, typer.Argument(help="Higher values run earlier; a new job has 0.")]
) -> None:
    """Change a queued job's priority; of equals the oldest job runs first.

    For a negative value write `drafthouse priority JOB -- -5`.
    """
    engine = app_engine(ready_settings().app_database_url)
    job_id = queue.job_id_of(engine, job, ("queued",))
    order.reprioritise(engine, job_id, value, actor=local_actor())
    print(f"{job_id} has priority {value}")
