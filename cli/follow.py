"""Follow a submitted job on the terminal until it ends and its runs are published."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from cli.lab import Lab
from cli.output import print_error, printable
from cli.progress import runs_ended, time_left, what_runs
from jobs.table import ACTIVE, NONE_VALID, Job

_POLL_INTERVAL_S = 0.5
_REPORT_EVERY_S = 15.0
#: An ingester beside other work of the machine may take a minute.
_PUBLISHED_WITHIN_S = 120.0


def results_url(page_url: str, job_id: str) -> str:
    return f"{page_url}/results?job={job_id}"


def follow(lab: Lab, job_id: str, on_tick: Callable[[], None] = lambda: None, *, on_stderr: bool = False) -> Job:
    """Show progress and time left until the job ends, and return it. Calls `on_tick` twice a second."""

    def waits(now: Job) -> str:
        return "" if now.progress else lab.why_jobs_wait([now]).get(now.job_id, "")

    console = Console(stderr=on_stderr)
    return (_bar if console.is_terminal else _lines)(console, lambda: lab.watched(job_id), on_tick, waits)


def follow_to_results(lab: Lab, job_id: str, *, on_stderr: bool = False) -> Job:
    """Follow a job until its runs are published, and return it. If it has no valid run, or its runs are not published,
    print why and exit with 1.
    """
    ended = follow(lab, job_id, on_stderr=on_stderr)
    if ended.state == "done":
        if not all_there(lab, ended):
            print_error(f"{job_id} is done, but not all of its runs are in the warehouse: `drafthouse doctor` says why")
            raise SystemExit(1)
        ended = lab.job(job_id)  # with its invalid runs
    if ended.state != "done" or ended.state_word == NONE_VALID:
        print_error(_how_it_ended(ended))
        raise SystemExit(1)
    return ended


def fail_if_runs_failed(ended: Job) -> None:
    """Print which runs failed, and exit with 1, if some of a job that is done did."""
    if ended.error is not None:
        print_error(_how_it_ended(ended))
        raise SystemExit(1)


def _how_it_ended(job: Job) -> str:
    """Return `JOB: done, 5 of 12 runs failed, 7 invalid`, and its error below, if it has one."""
    return f"{job.job_id}: {job.outcome}" + (f"\n{job.error}" if job.error else "")


def all_there(lab: Lab, ended: Job) -> bool:
    """Wait for the ingester; return whether the lab's warehouse has every completed run of the ended job."""
    wanted = 0 if ended.progress is None else ended.progress.runs_total - ended.progress.runs_failed
    deadline_s = time.monotonic() + _PUBLISHED_WITHIN_S
    while lab.completed_runs(ended) < wanted:
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_INTERVAL_S)
    return True


def _bar(console: Console, poll: Callable[[], Job], on_tick: Callable[[], None], waits: Callable[[Job], str]) -> Job:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs  {task.fields[left]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("waiting for a worker", total=None, left="")
        while (now := poll()).state in ACTIVE:
            on_tick()
            bar.update(task, description=printable(waits(now) or what_runs(now)))
            if now.progress is not None:
                bar.update(task, completed=now.progress.runs_done, total=now.progress.runs_total)
                bar.update(task, left=time_left(now))
            time.sleep(_POLL_INTERVAL_S)
        if now.progress is not None:
            bar.update(task, description=now.outcome, completed=now.progress.runs_done, left="")
    return now


def _lines(console: Console, poll: Callable[[], Job], on_tick: Callable[[], None], waits: Callable[[Job], str]) -> Job:
    """Print a line whenever the run changes, and at least one every 15 s, for a log file."""
    shown, shown_at_s = "", 0.0
    while (now := poll()).state in ACTIVE:
        on_tick()
        text = waits(now) or what_runs(now)
        if text != shown or time.monotonic() - shown_at_s > _REPORT_EVERY_S:
            runs = f"runs {runs_ended(now)}" if now.progress else "queued"
            console.print(printable(f"{runs}  {text}  {time_left(now)}"), markup=False, highlight=False, soft_wrap=True)
            shown, shown_at_s = text, time.monotonic()
        time.sleep(_POLL_INTERVAL_S)
    return now
