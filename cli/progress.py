"""A job's progress in words, for the job list and for callers that wait."""

from __future__ import annotations

from jobs.table import FINISHED, Job


def runs_ended(job: Job) -> str:
    """Return `6/8`, or `6/8 (2 failed, 1 invalid)`; empty before the job starts. `runs_done` counts failed runs too.

    `6/at most 8` if outcomes may make it less.
    """
    if job.progress is None:
        return ""
    lost = f" ({job.lost})" if job.lost else ""
    most = "at most " if job.progress.runs_total_is_at_most else ""
    return f"{job.progress.runs_done}/{most}{job.progress.runs_total}{lost}"


def what_runs(job: Job) -> str:
    """Return `measuring · draft model k=3 · code · c4`, or the reason why the job waits."""
    if job.progress is None:
        return "waiting for a worker"
    parts = (job.progress.phase, job.progress.arm, job.progress.workload, job.progress.load)
    return " · ".join(part for part in parts if part)


def what_is_known(job: Job) -> str:
    """Return `18 of 30 comparisons decided`, or why measuring ended; empty for a study that measures a fixed plan."""
    return "" if job.progress is None else job.why_ended or job.progress.standing


def time_left(job: Job) -> str:
    """Return `about 3 min 20 s left`, or empty while no estimate exists, and once the job has ended."""
    if job.state in FINISHED or job.progress is None or job.progress.remaining_s is None:
        return ""
    minutes, seconds = divmod(round(job.progress.remaining_s), 60)
    return f"about {minutes} min {seconds:02d} s left" if minutes else f"about {seconds} s left"
