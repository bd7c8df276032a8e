"""`drafthouse priority`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.arguments import JobId
from cli.home import ready_settings
from jobs import order
from warehouse.app_db.engine import app_engine


def priority(
    job_id: JobId, value: Annotated[int, typer.Argument(help="Higher values run earlier; a new job has 0.")]
) -> None:
    """Change a queued job's priority; of equals the oldest job runs first.

    For a negative value write `drafthouse priority JOB_ID -- -5`.
    """
    order.reprioritise(app_engine(ready_settings().app_database_url), job_id, value)
    print(f"{job_id} has priority {value}")
