"""`drafthouse priority`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.arguments import JobName
from cli.labs.chosen import the_lab


def priority(
    job: JobName, value: Annotated[int, typer.Argument(help="Higher values run earlier; a new job has 0.")]
) -> None:
    """Change a queued job's priority; of equals the oldest job runs first.

    For a negative value write `drafthouse priority JOB -- -5`.
    """
    print(f"{the_lab().reprioritise(job, value)} has priority {value}")
