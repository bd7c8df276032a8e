"""`drafthouse jobs`, `cancel`, `retry`, `priority` and `logs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from cli.arguments import AsJson, JobName
from cli.lab import the_lab
from cli.output import print_entries, print_json, print_literally, print_text
from cli.progress import runs_ended, time_left, what_is_known, what_runs
from jobs.queue import SetAside
from jobs.table import Job


def jobs(
    *,
    before: Annotated[str | None, typer.Option(help="Only jobs submitted before this one.")] = None,
    hidden: Annotated[bool, typer.Option("--hidden", help="Hidden studies', too.")] = False,
    tag: Annotated[str | None, typer.Option(help="Only of studies with this tag.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the newest 200 jobs, and all that are queued or running."""
    here = the_lab()
    page = here.page(before, hidden=hidden, tag=tag)
    if as_json:
        print_json([_as_dict(job) for job in page.jobs])
    else:
        queued = [job for job in page.jobs if job.state == "queued"]
        waiting = here.why_jobs_wait(queued) if queued else {}
        _show(page.jobs, here.set_aside() if before is None else (), waiting)
        if page.older is not None:
            print_text(f"Older ones: drafthouse jobs --before {page.older}")


def cancel(job: JobName) -> None:
    """Stop a job; its finished runs stay in the warehouse."""
    print_text(f"{the_lab().cancel(job)}: cancel requested")


def retry(
    job: JobName,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Completed runs, too; earlier results stay.")] = False,
) -> None:
    """Queue an ended job again; only its missing and failed runs are measured."""
    print_text(f"{the_lab().retry(job, everything=everything)} is queued again")


def priority(
    job: JobName, value: Annotated[int, typer.Argument(help="Higher values run earlier; a new job has 0.")]
) -> None:
    """Change a queued job's priority; with equal priority, submitters alternate.

    For a negative value write `drafthouse priority JOB -- -5`.
    """
    print_text(f"{the_lab().reprioritise(job, value)} has priority {value}")


def logs(job: JobName, *, lines: Annotated[int, typer.Option(min=1, help="How many lines to show.")] = 200) -> None:
    """Show the end of the engine's log of a job."""
    job_id, tail = the_lab().log(job, lines)
    print_literally(tail or f"No engine of job {job_id} has written a log yet.")


def _show(jobs: Sequence[Job], set_aside: Sequence[SetAside], waiting: Mapping[str, str]) -> None:
    if not jobs and not set_aside:
        print_text("No jobs yet. Begin with `drafthouse submit demo`.")
        return
    reasons = dict(waiting) | {job.job_id: job.reason for job in set_aside}
    rows = [(job.job_id, job.name, job.state_word, runs_ended(job), time_left(job)) for job in jobs]
    entries = [(row, _sentences(job, reasons.pop(job.job_id, ""))) for row, job in zip(rows, jobs, strict=True)]
    entries += [((job.job_id, job.name, job.state, "", ""), [job.reason]) for job in set_aside if job.job_id in reasons]
    print_entries(("job", "study", "state", "runs", "time left"), entries)


def _sentences(job: Job, reason: str) -> list[str]:
    """Return the current run, the findings or the reason for the end, and the error, without empty ones."""
    running = what_runs(job) if job.state == "running" else ""
    return [sentence for sentence in (running, what_is_known(job), job.error or reason) if sentence]


def _as_dict(job: Job) -> dict[str, Any]:
    row = asdict(job)
    for of_the_queue in ("needs", "lease", "clock_behind_s", "host", "over_hosts"):  # the API has none of these either
        del row[of_the_queue]
    row["outcome"] = job.outcome
    row["study"] = job.study.model_dump(mode="json")
    row["progress"] = None if job.progress is None else job.progress.model_dump(mode="json")
    return row
