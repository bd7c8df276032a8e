"""`drafthouse priority`."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.arguments import JobName
from cli.labs.chosen import the_lab
from cli.output import print_text


def priority(
    job: JobName, value: Annotated[int, typer.Argument(help="Higher values run earlier; a new job has 0.")]
) -> None:
    """Change a queued job's priority; of equals, those who submitted take turns.

    For a negative value write `drafthouse priority JOB -- -5`.
    """
    print_text(f"{the_lab().reprioritise(job, value)} has priority {value}")
