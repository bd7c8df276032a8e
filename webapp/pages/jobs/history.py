"""The table of all jobs: filters, pages, and the choice of the job that is shown in detail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import sqlalchemy as sa
import streamlit as st

from jobs import listing
from jobs.listing import Wanted
from jobs.queue import Page
from jobs.table import Job, State
from lab.errors import UserError
from webapp.pages.jobs.sections import runs_of
from webapp.shared import curating, url_params, url_widgets
from webapp.shared.cards import BADGES, with_invalid_runs
from webapp.shared.tables import MINUTE, Column, columns, show_rows
from webapp.shared.text import duration, literal

_ROWS = 50
_ANY = "any"
_STATES: tuple[State, ...] = ("queued", "running", "done", "failed", "cancelled")
#: The filter of the page's last run: another one begins with the newest jobs.
_FILTER = "jobs-filter"
#: A longer table scrolls.
_MAX_ROWS = 8
_HISTORY = columns(
    job_id={"width": 150},
    state=Column("State", width=95, states={state: colour for state, (colour, _) in BADGES.items()}),
    name=Column("Study", width=150),
    submitted=Column("Submitted (UTC)", MINUTE, width=120),
    duration={"width": 75},
    runs=Column("Runs", width=135),
    error={"width": 170},
)


def show(engine: sa.Engine, counts: Mapping[str, int]) -> Page:
    """Show filters and a page of the jobs; return it."""
    st.subheader("All jobs", anchor=False)
    st.caption(" · ".join(f"{counts[state]:,} {state}" for state in _STATES if state in counts))
    wanted = _choose(counts)
    if st.session_state.get(_FILTER, wanted) != wanted:
        st.query_params.pop(url_params.BEFORE, None)
    st.session_state[_FILTER] = wanted
    before = st.query_params.get(url_params.BEFORE)
    try:
        page = listing.page(engine, wanted, _ROWS, before)
    except UserError as error:
        st.warning(f"{literal(error)}. Shown instead: the newest jobs.", icon=":material/link_off:")
        before, page = None, listing.page(engine, wanted, _ROWS)
    if page.jobs:
        _show_table(page.jobs)
    else:
        st.caption("No job is like that.")
    _show_pages(page, before)
    return page


def _choose(counts: Mapping[str, int]) -> Wanted:
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        with st.container(width=190):
            states = [state for state in _STATES if state in counts]
            state = url_widgets.choose(url_params.STATE, [_ANY, *states])
        with st.container(width=260):
            text = url_widgets.write(url_params.FIND_JOB, placeholder="any", help_text="Part of a name or of an id")
        with st.container(width=190):
            by = url_widgets.write(url_params.SUBMITTER, placeholder="anybody", help_text="Part of a user's name")
        tag = _ANY
        if (tags := curating.tags()) or url_params.TAG.key in st.query_params:
            with st.container(width=160):
                tag = url_widgets.choose(url_params.TAG, [_ANY, *tags])
        hidden = url_widgets.toggle("Hidden ones, too", url_params.HIDDEN, width="content")
    url_widgets.report_missing(url_params.STATE, url_params.TAG)
    return Wanted("" if state == _ANY else state, text, by, None if tag == _ANY else tag, hidden)


def _show_table(jobs: Sequence[Job]) -> None:
    show_rows(
        table(jobs),
        _HISTORY,
        "Jobs, newest first",
        height="content" if len(jobs) <= _MAX_ROWS else 320,
        on_select=lambda: _open_selected(jobs),
        selection_mode="single-row",
        key="jobs-table",
    )


def _show_pages(page: Page, before: str | None) -> None:
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


def table(jobs: Sequence[Job]) -> pd.DataFrame:
    rows = [
        {
            "state": [job.state_word],
            "name": job.name,
            "submitted": job.submitted_at,
            "duration": "–"
            if job.started_at is None or job.finished_at is None
            else duration((job.finished_at - job.started_at).total_seconds()),
            "runs": _runs_done(job),
            "error": job.cause,
            "job_id": job.job_id,
        }
        for job in with_invalid_runs(jobs)
    ]
    return pd.DataFrame(rows)


def _runs_done(job: Job) -> str:
    if job.progress is None:
        return "–"
    return runs_of(job.progress) + (f", {job.lost}" if job.lost else "")


def _open_selected(jobs: Sequence[Job]) -> None:
    selected = st.session_state["jobs-table"].selection.rows
    if selected and selected[0] < len(jobs):
        job = jobs[selected[0]]
        st.session_state[url_params.JOB.key] = url_params.job_label(job.name, job.job_id)
