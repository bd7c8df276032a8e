"""One job on the Jobs page: its error, runs, engine log, events and study."""

from __future__ import annotations

import pandas as pd
import sqlalchemy as sa
import streamlit as st

from access.web import visitor
from jobs import queue
from jobs.engine_logs import log_tail
from jobs.table import FINISHED, Job
from lab.roles import Change
from lab.study.parsing import study_to_toml
from webapp.pages.jobs import runs
from webapp.shared import curating, published_data, url_params
from webapp.shared.cards import show_badge
from webapp.shared.errors import show_user_errors
from webapp.shared.tables import SECOND, Column, columns, show_rows
from webapp.shared.text import literal, moment
from webapp.shared.url_params import page_file
from webapp.shared.verdicts import answers
from webapp.shared.verdicts.answers import FROM_JOB

_LOG_LINES = 200
_LOG_HEIGHT = 360
_REFRESH_EVERY = "1s"
_EVENTS = columns(
    at=Column("Time (UTC)", SECOND, width="small"),
    kind=Column("Event", width="small"),
    actor=Column("By", width="small"),
    detail=Column("Detail", width="large"),
)


def show(engine: sa.Engine, job_id: str) -> None:
    """Show the job in a box. Raises UserError for an unknown job."""
    job = published_data.job_of_queue(engine, job_id)
    with st.container(border=True):
        _show_head(job)
        curating.show(job_id)
        if job.why_ended:
            st.markdown(literal(job.why_ended))
        if job.state in FINISHED:
            answers.show_next(job_id)
        if job.error:
            st.markdown(":red[:material/error: **Error**]")
            st.code(job.error, language=None, wrap_lines=True)
        runs_tab, log_tab, events_tab, study_tab = st.tabs(["Runs", "Engine log", "Events", "Study"])
        with runs_tab:
            runs.show(engine, job)
        with log_tab:
            every = _REFRESH_EVERY if job.state == "running" else None
            st.fragment(_show_log, run_every=every)(job_id)
        with events_tab:
            _show_events(engine, job_id)
        with study_tab:
            st.code(study_to_toml(job.study), language=None)


def _show_head(job: Job) -> None:
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            st.markdown(f"**{literal(job.name)}** :gray[{literal(job.job_id)}]", width="content")
            show_badge(job)
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            if job.progress and job.progress.runs_done:
                query = {url_params.JOB.key: url_params.job_label(job.name, job.job_id)}
                st.page_link(page_file("results"), label="Results", icon=":material/monitoring:", query_params=query)
            if visitor.allowed_any(Change.SUBMIT):
                query = {FROM_JOB: job.job_id}
                label = "Edit and resubmit"
                st.page_link(page_file("submit"), label=label, icon=":material/edit:", query_params=query)
            if job.state in FINISHED and visitor.allowed(Change.RETRY, job.submitted_by):
                _show_retry_buttons(job)
                curating.show_menu(job.job_id, job.name)
    by = f" by {literal(job.submitted_by)}" if job.submitted_by else ""
    parts = [f"Submitted {moment(job.submitted_at)}{by}"]
    parts += [f"{what} {moment(at)}" for what, at in (("started", job.started_at), ("ended", job.finished_at)) if at]
    parts += [f"worker {literal(job.worker)}"] if job.worker else []
    st.caption(" · ".join(parts))


def _show_retry_buttons(job: Job) -> None:
    help_text = "Runs only what is missing or failed"
    if can_retry(job) and st.button("Retry", icon=":material/replay:", help=help_text):
        _retry(job, everything=False)
    help_text = "Measures every run of this job again; earlier measurements stay in the warehouse"
    if st.button("Run all again", icon=":material/restart_alt:", help=help_text):
        _retry(job, everything=True)


def _retry(job: Job, *, everything: bool) -> None:
    with show_user_errors():
        queue.retry(published_data.engine(), job.job_id, actor=visitor.actor(), everything=everything)
    st.rerun()


def can_retry(job: Job) -> bool:
    """Return whether any run of the job is left to retry."""
    return job.state != "done" or bool(job.progress and job.progress.runs_failed)


def _show_log(job_id: str) -> None:
    with show_user_errors():
        progress = published_data.job_of_queue(published_data.engine(), job_id).progress
        tail = log_tail(published_data.settings(), job_id, _LOG_LINES, progress)
    if tail.strip():
        with st.container(height=_LOG_HEIGHT, border=False, autoscroll=True):
            st.code(tail, language=None, wrap_lines=True)
    else:
        st.caption("There is no engine log for this job yet.")


def _show_events(engine: sa.Engine, job_id: str) -> None:
    rows = pd.DataFrame(map(vars, queue.events(engine, job_id)), columns=list(_EVENTS))
    show_rows(rows, _EVENTS, "The events of this job, oldest first")
