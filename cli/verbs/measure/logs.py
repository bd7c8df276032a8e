"""`drafthouse logs`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.arguments import JobName
from cli.labs.chosen import the_lab
from cli.output import print_literally


def logs(job: JobName, *, lines: Annotated[int, typer.Option(help="How many lines to show.")] = 200) -> None:
    """Show the end of the engine's log of a job."""
    job_id, tail = the_lab().log(job, lines)
    print_literally(tail or f"No engine of job {job_id} has written a log yet.")
