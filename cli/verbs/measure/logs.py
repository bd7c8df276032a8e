"""`drafthouse logs`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.arguments import JobId
from jobs.engine_logs import log_tail
from warehouse.settings import load_settings


def logs(job_id: JobId, *, lines: Annotated[int, typer.Option(help="How many lines to show.")] = 200) -> None:
    """Show the end of the engine's log of a job."""
    settings = load_settings()
    print(log_tail(settings.logs_dir, settings.bundles, job_id, lines))
