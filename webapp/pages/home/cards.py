"""The cards of the Home page: what runs, what finished last, what was measured, and the workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pandas as pd

from jobs.table import Job
from jobs.worker_registry import WorkerInfo
from webapp.pages.jobs.workers import engine_names
from webapp.shared.cards import Card
from webapp.shared.text import count, duration, moment


def now_card(jobs: Sequence[Job]) -> Card:
    """The running studies, or how many are queued."""
    running = [job for job in jobs if job.state == "running"]
    queued = sum(job.state == "queued" for job in jobs)
    waiting = f"{count(queued, 'study waits', 'studies wait')} in the queue" if queued else "nothing waits in the queue"
    if running:
        return Card("Now", f"{len(running)} running", f"{'; '.join(map(_progress_words, running))}; {waiting}")
    return Card("Now", f"{queued} waiting" if queued else "idle", f"No study is running; {waiting}")


def _progress_words(job: Job) -> str:
    progress = job.progress
    if progress is None:
        return f"{job.name}: the engine is about to start"
    left = "" if progress.remaining_s is None else f", about {duration(progress.remaining_s)} left"
    return f"{job.name}: {progress.runs_done} of {count(progress.runs_total, 'run')}{left}"


def finished_card(ended: pd.DataFrame) -> Card:
    """`ended` as `home_tables.ended` gives it."""
    label = "Finished last"
    if ended.empty:
        return Card(label, "–", "No study has ended yet")
    last = ended.iloc[0]
    when = last["ended"]
    state = last["state"][0]
    return Card(label, last["study"], f"{state}, runs: {last['runs']}; {moment(None if pd.isna(when) else when)}")


def measured_card(studies: pd.DataFrame) -> Card:
    """`studies` as `queries.jobs_with_results` gives it, or empty."""
    label = "Measured"
    if studies.empty:
        return Card(label, "no runs", "The warehouse is empty")
    failed = int(studies["runs_failed"].sum())
    of = f"{count(len(studies), 'study', 'studies')} of {count(studies['target'].nunique(), 'target')}"
    return Card(label, count(int(studies["runs_completed"].sum()), "run"), f"{of}; {failed or 'none'} failed")


def workers_card(workers: Sequence[WorkerInfo], now: datetime) -> Card:
    """The workers that are present: how many are free, their hardware, GPUs and engines."""
    label = "Workers"
    there = [worker for worker in workers if not worker.is_away(now)]
    if not there:
        away = f"{len(workers)} away; " if workers else ""
        return Card(label, "none", f"{away}start one with drafthouse up or drafthouse worker")
    free = sum(worker.job_id is None for worker in there)
    gpus = sum(worker.gpus for worker in there)
    hardware = ", ".join(sorted({worker.hardware for worker in there}))
    engines = ", ".join(sorted({engine_names(worker) for worker in there}))
    return Card(
        label, f"{free} free" if free else f"{len(there)} busy", f"{hardware}; {count(gpus, 'GPU')}; engines: {engines}"
    )
