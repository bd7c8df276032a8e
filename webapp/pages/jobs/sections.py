"""Live progress of the first running and queued jobs, on the Jobs page and on Home."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

import sqlalchemy as sa
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from access.web import visitor
from jobs import listing, order, queue
from jobs.fleet import worker_registry
from jobs.table import Job, Progress
from lab.metrics.catalogue import BY_NAME
from lab.metrics.number_format import number
from lab.roles import Change
from webapp.pages.jobs import queue_controls
from webapp.shared import published_data, study_picker
from webapp.shared.cards import show_badge, with_invalid_runs
from webapp.shared.errors import show_user_errors
from webapp.shared.text import count, duration, literal
from webapp.shared.url_params import page_file

_REFRESH_EVERY, _REFRESH_EMPTY_EVERY = "1s", "2s"
#: Cards of running and of queued jobs; the table of all jobs has the others.
MOST_RUNNING, MOST_QUEUED = 3, 3
#: Estimated starts move on although nothing happens in the queue.
_QUEUE_EVERY = "30s"
#: Redrawing the page costs a tenth of a second; while many jobs start and end it happens no more often than this.
_REDRAWN_AFTER_S = 3.0


def show_empty_state() -> None:
    """Say that no study has been submitted yet."""
    text = "Submitted studies are queued here, show their progress, and remain in the history."
    with study_picker.empty_state("No jobs yet", text):
        if st.button("Submit a study", type="primary", icon=":material/add_circle:"):
            st.switch_page(page_file("submit"))


def show_active(engine: sa.Engine, counts: Mapping[str, int], *, with_queue: bool = True) -> list[str]:
    """Show cards of the first running and queued jobs, and how many more there are; return the ids of these jobs.

    The cards of running jobs are refreshed every second; a change in the queue redraws the page.
    """
    newest = published_data.newest_event(engine)
    running = published_data.running_jobs(engine, MOST_RUNNING) if counts.get("running") else []
    every = _REFRESH_EVERY if running else _REFRESH_EMPTY_EVERY
    st.fragment(_show_live, run_every=every)(newest, on_page(running), time.monotonic())
    if counts.get("running", 0) > len(running):
        st.markdown(f":small[{counts['running'] - len(running):,} more are [running](jobs?state=running).]")
    waiting = counts.get("queued", 0)
    if waiting and not with_queue:
        st.markdown(f":small[{count(waiting, 'study waits', 'studies wait')} in the [queue](jobs?state=queued).]")
    queued = published_data.next_queued(engine, MOST_QUEUED) if waiting and with_queue else []
    if queued:
        st.fragment(_show_queue, run_every=_QUEUE_EVERY)([job.job_id for job in queued], waiting)
    return [job.job_id for job in (*running, *queued)]


def on_page(running: Sequence[Job]) -> list[tuple[str, str, int, int]]:
    """Return what the rest of the page shows about these jobs: a change redraws the whole page."""
    return [
        (job.job_id, job.state, *((progress.runs_done, progress.runs_total) if (progress := job.progress) else (0, 0)))
        for job in running
    ]


def _show_live(newest: int, shown: list[tuple[str, str, int, int]], drawn_s: float) -> None:
    """Show the running jobs, and redraw the page after a change: without one it costs a question by an index."""
    with show_user_errors():
        engine = published_data.engine()
        changed = published_data.newest_event(engine) != newest
        running = published_data.running_jobs(engine, MOST_RUNNING) if shown or changed else []
    if (changed or on_page(running) != shown) and time.monotonic() - drawn_s > _REDRAWN_AFTER_S:
        st.rerun()
    for job in running:
        _show_running(job)


def _show_queue(ids: Sequence[str], waiting: int) -> None:
    with show_user_errors():
        engine = published_data.engine()
        queued = [job for job in published_data.next_queued(engine, len(ids)) if job.job_id in ids]
        workers = published_data.workers(engine)
        starts = order.estimated_starts(
            [*published_data.running_jobs(engine), *queued],
            workers,
            takes_s=lambda study: published_data.forecast(study).seconds,
        )
    for position, job in enumerate(queued, start=1):
        with _queued_card(job, position, waiting):
            sentence = queue_controls.queue_sentence(job, position, starts.get(job.job_id), workers, datetime.now(UTC))
            st.caption(sentence)
    if waiting > len(ids):
        more = count(waiting - len(ids), "more study waits", "more studies wait")
        st.caption(f"{more}: choose one in the table below to see its position, or to move or cancel it.")


def show_card(engine: sa.Engine, job_id: str) -> None:
    """Show the card of a job that has none above, if it is queued or running."""
    job = published_data.job_of_queue(engine, job_id)
    if job.state == "running":
        _show_running(job)
    elif job.state == "queued" and (position := listing.position(engine, job_id)) is not None:
        why = worker_registry.why_jobs_wait(engine, [job]).get(job_id)
        with _queued_card(job, position, position + 1):
            ahead = f"{count(position - 1, 'study', 'studies')} ahead in the queue"
            st.caption(f"{ahead}; {literal(why)}." if why else f"{ahead}.")


@contextmanager
def _queued_card(job: Job, position: int, last: int) -> Iterator[None]:
    with st.container(border=True, key=f"active-{job.job_id}", gap="small"):
        with _show_head(job):
            queue_controls.show_controls(job, position, last)
            _show_cancel_button(job)
        yield


def _show_running(job: Job) -> None:
    with st.container(border=True, key=f"active-{job.job_id}"):
        with _show_head(job):
            _show_cancel_button(job)
        progress = job.progress
        if progress is None:
            st.progress(0.0, text="claimed by a worker; the engine is about to start")
            return
        (counted,) = with_invalid_runs([job])
        lost = counted.lost or "none failed"
        st.progress(share_done(progress), text=literal(progress_sentence(progress)))
        with st.grid(4, gap="small"):
            for label, value, detail in progress_figures(progress, lost):
                with st.container(gap="xxsmall"):
                    st.caption(label)
                    st.markdown(f"**{literal(value)}** :gray[{literal(detail)}]")
        if progress.standing:
            st.caption(literal(progress.standing))


def _show_head(job: Job) -> DeltaGenerator:
    """Show the job's name and state; return the container for its buttons, at the right."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            st.markdown(f"**{literal(job.name)}** :gray[{literal(job.job_id)}]", width="content")
            show_badge(job)
        return st.container(horizontal=True, vertical_alignment="center", width="content", gap="xsmall")


def _show_cancel_button(job: Job) -> None:
    """Draw the button, which asks for confirmation: the measurements of the current run are lost."""
    if job.cancel_requested or not visitor.allowed(Change.CANCEL, job.submitted_by):
        return
    with st.popover("Cancel", icon=":material/cancel:"):
        st.markdown("Stop this study? Finished runs stay in the warehouse; the current run is lost.")
        if st.button("Cancel the study", key=f"cancel-{job.job_id}", type="primary"):
            with show_user_errors():
                queue.cancel(published_data.engine(), job.job_id, actor=visitor.actor())
            st.rerun()


def share_done(progress: Progress) -> float:
    """Return the finished runs plus the finished part of the current run, as a share of all runs."""
    within = progress.requests_done / progress.requests_total if progress.requests_total else 0.0
    return min(1.0, (progress.runs_done + min(1.0, within)) / max(1, progress.runs_total))


def progress_sentence(progress: Progress) -> str:
    """Say `measuring: draft model k=3, reference/code/64, c4-n16, repeat 1: 5 of 16 requests`."""
    where = ", ".join(part for part in (progress.arm, progress.workload, progress.load) if part)
    requests = f": {progress.requests_done} of {progress.requests_total} requests" if progress.requests_total else ""
    return f"{progress.phase}: {where}, repeat {progress.repeat + 1}{requests}"


def runs_of(progress: Progress) -> str:
    """Say `3 of 8`, or `3 of at most 8` if the study may stop earlier."""
    most = "at most " if progress.runs_total_is_at_most else ""
    return f"{progress.runs_done} of {most}{progress.runs_total}"


def progress_figures(progress: Progress, lost: str) -> list[tuple[str, str, str]]:
    """Return label, value and detail of each figure of a running job. `lost`: its lost runs in words."""
    return [
        (BY_NAME["output_tok_per_s"].label, f"{number(progress.output_tok_per_s)} tok/s", "current run"),
        ("TTFT", f"{number(progress.ttft_ms)} ms", "current run"),
        ("Runs", runs_of(progress), lost),
        ("Time left, estimated", duration(progress.remaining_s), ""),
    ]
