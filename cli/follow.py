"""Submit a study and show on the terminal how far it is, until it is done."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from sqlalchemy import Engine

from jobs.presets import load_preset
from jobs.queue import job, submit
from jobs.table import Job
from lab.study import Study
from lab.study.plan import plan
from services.supervisor import page_url
from warehouse.app_db.engine import app_engine
from warehouse.queries.connect import open_warehouse
from warehouse.settings import Settings

_LOOK_EVERY_S = 0.5
_REPORT_EVERY_S = 15.0
_PUBLISHED_WITHIN_S = 30.0
_ACTIVE = ("queued", "running")


def demo_study() -> Study:
    return load_preset("demo")


def results_url(settings: Settings, job_id: str) -> str:
    """The page with the results of one job."""
    return f"{page_url(settings)}/results?job={job_id}"


def run_demo(settings: Settings, tend: Callable[[], None]) -> bool:
    """Submit the demo study, follow it and say how it ended; whether all of its runs are in the warehouse."""
    job_id = submit(settings, demo_study())
    print(f"Results as they come: {results_url(settings, job_id)}", flush=True)
    done = follow(settings, job_id, tend)
    published = all_runs_published(settings, done)
    if published:
        print(f"Done. Results: {results_url(settings, job_id)}", flush=True)
    else:
        print(f"The study did not finish ({done.state}): {done.error or 'some runs failed'}", flush=True)
        print(f"See `drafthouse logs {job_id}` and {page_url(settings)}/jobs", flush=True)
    return published


def follow(settings: Settings, job_id: str, tend: Callable[[], None]) -> Job:
    """Show progress with time left until the job has ended; return it. `tend` is called all the while."""
    engine = app_engine(settings.app_database_url)
    console = Console()
    show = _bar if console.is_terminal else _lines
    try:
        return show(console, engine, job_id, tend)
    finally:
        engine.dispose()


def all_runs_published(settings: Settings, done: Job) -> bool:
    """Whether every run of the job's plan can be read, completed, from the published warehouse."""
    wanted = sum(len(launch.runs) for launch in plan(done.study))
    deadline_s = time.monotonic() + _PUBLISHED_WITHIN_S
    while _completed_runs(settings, done.job_id) < wanted:
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_LOOK_EVERY_S)
    return True


def _completed_runs(settings: Settings, job_id: str) -> int:
    from warehouse.queries import results as queries  # noqa: PLC0415 - brings pandas, a second that no other command should pay

    with open_warehouse(settings.warehouse_file) as connection:
        return int((queries.results(connection, job_id)["status"] == "completed").sum())


def _bar(console: Console, engine: Engine, job_id: str, tend: Callable[[], None]) -> Job:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs  {task.fields[left]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("waiting for a worker", total=None, left="")
        while (now := job(engine, job_id)).state in _ACTIVE:
            tend()
            if now.progress is not None:
                bar.update(task, completed=_runs_ended(now), total=now.progress.runs_total)
                bar.update(task, description=what_runs(now), left=time_left(now))
            time.sleep(_LOOK_EVERY_S)
        if now.progress is not None:
            bar.update(task, description=now.state, completed=_runs_ended(now), left="")
    return now


def _lines(console: Console, engine: Engine, job_id: str, tend: Callable[[], None]) -> Job:
    """For a log file: a line at every change of run, and one now and then."""
    said, said_at_s = "", 0.0
    while (now := job(engine, job_id)).state in _ACTIVE:
        tend()
        text = what_runs(now)
        if text != said or time.monotonic() - said_at_s > _REPORT_EVERY_S:
            runs = f"{_runs_ended(now)}/{now.progress.runs_total} runs" if now.progress else "queued"
            console.print(f"{runs}  {text}  {time_left(now)}", markup=False, highlight=False, soft_wrap=True)
            said, said_at_s = text, time.monotonic()
        time.sleep(_LOOK_EVERY_S)
    return now


def _runs_ended(now: Job) -> int:
    return 0 if now.progress is None else now.progress.runs_done + now.progress.runs_failed


def what_runs(now: Job) -> str:
    """`measuring · draft model k=3 · code · c4`, or what it waits for."""
    if now.progress is None:
        return "waiting for a worker"
    parts = (now.progress.phase, now.progress.arm, now.progress.workload, now.progress.load)
    return " · ".join(part for part in parts if part)


def time_left(now: Job) -> str:
    """`about 3 min 20 s left`, empty while unknown."""
    if now.progress is None or now.progress.remaining_s is None:
        return ""
    minutes, seconds = divmod(round(now.progress.remaining_s), 60)
    return f"about {minutes} min {seconds:02d} s left" if minutes else f"about {seconds} s left"
