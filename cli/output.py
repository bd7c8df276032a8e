"""Tables and JSON on the terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cli.follow import time_left, what_runs
from jobs.table import Job


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=1, default=str, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Values are shown as they are: nothing in them is markup."""
    table = Table(*columns, box=None, header_style="bold", pad_edge=False)
    for row in rows:
        table.add_row(*(Text(_cell(value)) for value in row))
    console = Console()
    if not console.is_terminal:
        console.width = 4096  # a program reads this: nothing may be cut off
    console.print(table)


def jobs_table(jobs: Sequence[Job]) -> None:
    """One line a job, newest first; an empty queue says how to fill it."""
    if not jobs:
        print("No jobs yet. Begin with `drafthouse submit demo`.")
        return
    rows = [(job.job_id, job.name, job.state, _progress(job), time_left(job), job.error or "") for job in jobs]
    print_table(("job", "study", "state", "runs", "time left", "error"), rows)


def _progress(job: Job) -> str:
    if job.progress is None:
        return ""
    ended = job.progress.runs_done + job.progress.runs_failed
    doing = f", {what_runs(job)}" if job.state == "running" else ""
    return f"{ended}/{job.progress.runs_total}{doing}"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
