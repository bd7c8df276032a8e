"""The Jobs page around one job: live progress of queued and running jobs, and the table of all jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypedDict

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from access.web import visitor
from jobs import order, queue, worker_registry
from jobs.queue import Page
from jobs.table import Job, Progress
from lab.metrics.catalogue import BY_NAME
from lab.metrics.number_format import number
from lab.roles import Change
from warehouse.app_db import curated
from webapp.pages.jobs import queue_controls
from webapp.shared import curating, published_data, url_params
from webapp.shared.cards import BADGES, show_badge, state_word
from webapp.shared.columns import MINUTE, Column, columns
from webapp.shared.errors import show_user_errors
from webapp.shared.text import count, duration, literal
from webapp.shared.url_params import page_file

_REFRESH_EVERY = "1s"
#: Keys in the session's state: whether hidden studies are listed, and the tag of those that are.
_HIDDEN, _TAG = "jobs-hidden", "jobs-tag"
#: A longer table scrolls.
_MAX_ROWS = 8
_HISTORY = columns(
    "job_id",
    state=Column("State", width=95, states={state: colour for state, (colour, _) in BADGES.items()}),
    name=Column("Study", width=160),
    submitted=Column("Submitted (UTC)", MINUTE, width=130),
    duration={"width": 85},
    runs=Column("Runs", width=85),
    error={"width": 125},
)


def show_empty_state() -> None:
    """Say that no study has been submitted yet."""
    with st.container(border=True, horizontal_alignment="center"):
        st.space("medium")
        st.subheader("No jobs yet", anchor=False, text_alignment="center")
        st.markdown(
            "Submitted studies are queued here, show their progress, and remain in the history.",
            text_alignment="center",
        )
        if st.button("Submit a study", type="primary", icon=":material/add_circle:"):
            st.switch_page(page_file("submit"))
        st.space("medium")


def show_active(active: Sequence[Job]) -> None:
    """Show cards of queued and running jobs, refreshed every second while there are any."""
    if active:
        _show_live(on_page(active))


def on_page(active: Sequence[Job]) -> list[tuple[str, str, int, int]]:
    """Return what the rest of the page shows about these jobs: a change redraws the whole page."""
    return [
        (job.job_id, job.state, *((progress.runs_done, progress.runs_total) if (progress := job.progress) else (0, 0)))
        for job in active
    ]


@st.fragment(run_every=_REFRESH_EVERY)
def _show_live(shown: list[tuple[str, str, int, int]]) -> None:
    with show_user_errors():
        active = queue.active(published_data.engine())
    if on_page(active) != shown:
        st.rerun()
    for job in active:
        if job.state == "running":
            _show_running(job)
    _show_queue(active)


def _show_queue(active: list[Job]) -> None:
    queued = order.queued_in_order(active)
    if not queued:
        return
    with show_user_errors():
        workers = worker_registry.list_workers(published_data.engine())
        starts = order.estimated_starts(active, workers, takes_s=lambda study: published_data.forecast(study).seconds)
    for position, job in enumerate(queued, start=1):
        with st.container(border=True, key=f"active-{job.job_id}", gap="small"):
            with _show_head(job):
                queue_controls.show_controls(job, position, len(queued))
                _show_cancel_button(job)
            start = starts.get(job.job_id)
            st.caption(queue_controls.queue_sentence(job, position, start, workers, datetime.now(UTC)))


def _show_running(job: Job) -> None:
    with st.container(border=True, key=f"active-{job.job_id}"):
        with _show_head(job):
            _show_cancel_button(job)
        progress = job.progress
        if progress is None:
            st.progress(0.0, text="claimed by a worker; the engine is about to start")
            return
        st.progress(share_done(progress), text=literal(progress_sentence(progress)))
        with st.grid(4, gap="small"):
            for label, value, detail in progress_figures(progress):
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


def progress_figures(progress: Progress) -> list[tuple[str, str, str]]:
    """Return label, value and detail of each figure of a running job."""
    failed = f"{count(progress.runs_failed, 'run')} failed" if progress.runs_failed else "none failed"
    return [
        (BY_NAME["output_tok_per_s"].label, f"{number(progress.output_tok_per_s)} tok/s", "current run"),
        ("TTFT", f"{number(progress.ttft_ms)} ms", "current run"),
        ("Runs", runs_of(progress), failed),
        ("Time left, estimated", duration(progress.remaining_s), ""),
    ]


class Chosen(TypedDict):
    """Which jobs are listed."""

    hidden: bool
    tag: str | None


def chosen_ones() -> Chosen:
    return Chosen(hidden=bool(st.session_state.get(_HIDDEN)), tag=st.session_state.get(_TAG))


def some_are_hidden() -> bool:
    return any(one.hidden_at is not None for one in curated.all_curated(published_data.engine()))


def show_choices() -> None:
    """Draw the heading of the table, with the choice of the jobs in it."""
    tags = curating.tags()
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.subheader("All jobs", anchor=False, width="content")
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            if tags:
                st.selectbox(
                    "Tag", tags, index=None, key=_TAG, placeholder="Any tag", label_visibility="collapsed", width=160
                )
            st.toggle("Hidden ones, too", key=_HIDDEN, width="content")


def show_table(jobs: Sequence[Job]) -> None:
    """Show a page of jobs, newest first; the selected job is shown in detail below."""
    st.dataframe(
        history(jobs),
        hide_index=True,
        height="content" if len(jobs) <= _MAX_ROWS else 320,
        placeholder="",
        column_config=_HISTORY,
        on_select=lambda: _open_selected(jobs),
        selection_mode="single-row",
        key="jobs-table",
        alt="Jobs, newest first",
    )


def show_pages(page: Page, before: str | None) -> None:
    """Draw buttons to the newest and to older jobs; no button if everything is on one page."""
    if before is None and page.older is None:
        return
    with st.container(horizontal=True, gap="small"):
        icon = ":material/first_page:"
        st.button("Newest", icon=icon, disabled=before is None, on_click=_turn_to, args=(None,))
        icon = ":material/chevron_right:"
        st.button("Older", icon=icon, disabled=page.older is None, on_click=_turn_to, args=(page.older,))


def _turn_to(before: str | None) -> None:
    if before is None:
        st.query_params.pop(url_params.BEFORE, None)
    else:
        st.query_params[url_params.BEFORE] = before


def history(jobs: Sequence[Job]) -> pd.DataFrame:
    rows = [
        {
            "state": [state_word(job)],
            "name": job.name,
            "submitted": job.submitted_at,
            "duration": "–"
            if job.started_at is None or job.finished_at is None
            else duration((job.finished_at - job.started_at).total_seconds()),
            "runs": _runs_done(job.progress),
            "job_id": job.job_id,
            "error": job.error.splitlines()[0] if job.error else None,
        }
        for job in jobs
    ]
    return pd.DataFrame(rows)


def _runs_done(progress: Progress | None) -> str:
    if progress is None:
        return "–"
    return runs_of(progress) + (f", {progress.runs_failed} failed" if progress.runs_failed else "")


def _open_selected(jobs: Sequence[Job]) -> None:
    selected = st.session_state["jobs-table"].selection.rows
    if selected and selected[0] < len(jobs):
        job = jobs[selected[0]]
        st.session_state[url_params.JOB.key] = url_params.job_label(job.name, job.job_id)
