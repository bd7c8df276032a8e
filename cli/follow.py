"""Follow a submitted job on the terminal until it ends and its runs are published."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from cli.output import printable
from cli.progress import runs_ended, time_left, what_runs
from jobs.queue import job
from jobs.table import ACTIVE, Job
from jobs.worker_registry import why_jobs_wait
from warehouse.app_db.engine import app_engine
from warehouse.queries import results as queries
from warehouse.queries.connect import open_warehouse

_LOOK_EVERY_S = 0.5
_REPORT_EVERY_S = 15.0
_PUBLISHED_WITHIN_S = 30.0


def results_url(page_url: str, job_id: str) -> str:
    """The page with the results of one job."""
    return f"{page_url}/results?job={job_id}"


def follow(app_database_url: str, job_id: str, tend: Callable[[], None], *, on_stderr: bool = False) -> Job:
    """Show progress and time left until the job ends, and return it. Calls `tend` twice a second."""
    engine = app_engine(app_database_url)
    try:
        waits = partial(why_jobs_wait, engine)
        return follow_job(lambda: job(engine, job_id), tend, why_jobs_wait=waits, on_stderr=on_stderr)
    finally:
        engine.dispose()


def follow_job(
    look: Callable[[], Job],
    tend: Callable[[], None] = lambda: None,
    *,
    why_jobs_wait: Callable[[Sequence[Job]], Mapping[str, str]] = lambda _jobs: {},
    on_stderr: bool = False,
) -> Job:
    """Follow the job that `look` returns in the same way. `why_jobs_wait` says what keeps workers from beginning."""
    console = Console(stderr=on_stderr)
    show = _bar if console.is_terminal else _lines
    return show(console, look, tend, lambda now: "" if now.progress else why_jobs_wait([now]).get(now.job_id, ""))


def all_runs_published(warehouse_file: Path, ended: Job) -> bool:
    """Whether the published warehouse has every run of the ended job as completed. Waits for the ingester."""
    return all_there(partial(completed_runs, warehouse_file), ended)


def all_there(completed: Callable[[Job], int], ended: Job) -> bool:
    """Whether so many of the ended job's runs are there. Waits for the ingester."""
    wanted = 0 if ended.progress is None else ended.progress.runs_total
    deadline_s = time.monotonic() + _PUBLISHED_WITHIN_S
    while completed(ended) < wanted:
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True


def completed_runs(warehouse_file: Path, ended: Job) -> int:
    """Those of attempts that count: `retry --all` measures again what earlier ones have completed."""
    with open_warehouse(warehouse_file) as connection:
        runs = queries.results(connection, ended.job_id)
        here = runs[(runs["status"] == "completed") & (runs["attempt"] >= ended.reuse_from_attempt)]
        return int(here["cell_key"].nunique())


def _bar(console: Console, look: Callable[[], Job], tend: Callable[[], None], waits: Callable[[Job], str]) -> Job:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs  {task.fields[left]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("waiting for a worker", total=None, left="")
        while (now := look()).state in ACTIVE:
            tend()
            bar.update(task, description=printable(waits(now) or what_runs(now)))
            if now.progress is not None:
                bar.update(task, completed=now.progress.runs_done, total=now.progress.runs_total)
                bar.update(task, left=time_left(now))
            time.sleep(_LOOK_EVERY_S)
        if now.progress is not None:
            bar.update(task, description=now.state, completed=now.progress.runs_done, left="")
    return now


def _lines(console: Console, look: Callable[[], Job], tend: Callable[[], None], waits: Callable[[Job], str]) -> Job:
    """For a log file: a line whenever the run changes, and at least one every 15 s."""
    shown, shown_at_s = "", 0.0
    while (now := look()).state in ACTIVE:
        tend()
        text = waits(now) or what_runs(now)
        if text != shown or time.monotonic() - shown_at_s > _REPORT_EVERY_S:
            runs = f"runs {runs_ended(now)}" if now.progress else "queued"
            console.print(printable(f"{runs}  {text}  {time_left(now)}"), markup=False, highlight=False, soft_wrap=True)
            shown, shown_at_s = text, time.monotonic()
        time.sleep(_LOOK_EVERY_S)
    return now
