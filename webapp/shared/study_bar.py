"""The bar above every page: the chosen study, its state, a list to choose another, and a newer study that failed.

The choice is the parameter `job` of the URL. Pages of one study show the newest with valid runs if none is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb
import pandas as pd
import streamlit as st

from jobs import queue
from jobs.table import ACTIVE, Job
from lab.errors import UserError
from warehouse.app_db.engine import DATABASE_ERRORS
from webapp.shared import published_data, url_params, url_widgets
from webapp.shared.errors import show_user_errors
from webapp.shared.job_badge import show_badge
from webapp.shared.text import count, literal
from webapp.shared.url_params import JOB, page_file

#: The newest jobs are offered even if they have no results.
_MAX_JOBS = 50
_MAX_REASON = 90
_REFRESH_EVERY = "3s"


@dataclass(frozen=True)
class Failure:
    """A study that ended without a valid run, and why."""

    name: str
    job_id: str
    reason: str


@dataclass(frozen=True)
class Bar:
    """The chosen study, and the one that pages of one study show if none is chosen; as labels."""

    chosen: str | None
    default: str | None


def show(*, is_of_study: bool) -> Bar:
    """Show the bar. `is_of_study`: the page shows one study, by default the newest with valid runs."""
    studies, jobs = _studies(), _jobs()
    default = default_study(studies)
    options = labels(studies, jobs)
    if not options:
        return Bar(None, None)
    chosen = _chosen(options, studies, default if is_of_study else None)
    with st.container(key="study-bar", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown("**Study**", width="content")
        st.selectbox(
            JOB.label,
            options if chosen is None or chosen in options else [*options, chosen],
            index=None,
            key=JOB.key,
            on_change=_changed,
            label_visibility="collapsed",
            placeholder="None chosen" if default is None else f"None chosen; newest with valid runs: {default}",
            width=480,
        )
        if chosen is not None:
            _show_state(url_params.job_id_of(chosen))
        failure = None if default is None or chosen not in (None, default) else newer_failure(studies, jobs)
        if failure is not None:
            _show_failure(failure)
    if chosen is None:
        url_widgets.record(JOB.key, None)
    else:
        url_widgets.record_option(JOB, chosen, options)
    url_widgets.report_missing(JOB)
    return Bar(chosen, default)


def default_study(studies: pd.DataFrame) -> str | None:
    """The label of the newest study with valid runs; of the newest one if none has any; None without a study.

    Imported ones only if none was measured here: whoever imports results chooses their name and their date.
    """
    if studies.empty:
        return None
    measured = studies[studies["origin"] == "measured"]
    studies = studies if measured.empty else measured
    valid = studies[studies["runs_completed"] > studies["runs_invalid"]]
    first = (studies if valid.empty else valid).iloc[0]
    return url_params.job_label(first["study_name"], first["job_id"])


def labels(studies: pd.DataFrame, jobs: Sequence[Job]) -> list[str]:
    """Studies with results and the newest jobs, the one submitted last first."""
    submitted: dict[str, datetime] = {
        url_params.job_label(row["study_name"], row["job_id"]): _utc(row["submitted_at"])
        for _, row in studies.iterrows()
    }
    submitted |= {url_params.job_label(job.name, job.job_id): _utc(job.submitted_at) for job in jobs}
    return sorted(submitted, key=lambda label: (submitted[label], label), reverse=True)


def newer_failure(studies: pd.DataFrame, jobs: Sequence[Job]) -> Failure | None:
    """The newest job that ended without a valid run after the newest study with valid runs was submitted."""
    valid = studies[studies["runs_completed"] > studies["runs_invalid"]]
    since = None if valid.empty else _utc(valid.iloc[0]["submitted_at"])
    by_id = {row["job_id"]: row for _, row in studies.iterrows()}
    for job in sorted(jobs, key=lambda job: job.submitted_at, reverse=True):
        if since is None or _utc(job.submitted_at) <= since:
            return None
        if reason := _why_without_runs(job, by_id.get(job.job_id)):
            return Failure(job.name, job.job_id, reason)
    return None


def _why_without_runs(job: Job, runs: pd.Series | None) -> str | None:
    """Why a failed job, or one whose runs all failed or are invalid, has no valid run; None for any other."""
    if job.state not in ("done", "failed") or (runs is not None and runs["runs_completed"] > runs["runs_invalid"]):
        return None
    if job.error:
        return job.error.splitlines()[0]
    if runs is None:
        return "without an error message" if job.state == "failed" else None
    total = int(runs["runs_completed"] + runs["runs_failed"])
    if runs["runs_failed"]:
        return f"{runs['runs_failed']} of {count(total, 'run')} failed"
    return "all its runs are invalid"


def _chosen(options: Sequence[str], studies: pd.DataFrame, default: str | None) -> str | None:
    """The study that the reader or the link has chosen, else the default. Puts it into the widget."""
    in_state = JOB.key in st.session_state
    named = st.session_state[JOB.key] if in_state else st.query_params.get(JOB.key)
    wanted = named if named or in_state else _only_filtered_study()
    option = url_widgets.find_option(wanted, options) or _newest_of_name(wanted, studies) or _older_job(wanted)
    if named and option is None:  # where only Explore's filter names one, Explore says so, and shows nothing instead
        st.session_state[url_widgets.missing_key(JOB.key)] = named
    chosen: str | None = option or default
    st.session_state[JOB.key] = chosen
    if chosen and url_widgets.is_study_changed():
        st.session_state[url_params.SLICED["study"].key] = [chosen]
    return chosen


def _only_filtered_study() -> str | None:
    """The study of a link to the Explore page that names one in its filter only."""
    named = st.query_params.get_all(url_params.SLICED["study"].key)
    return named[0] if len(named) == 1 and url_params.SEPARATOR in named[0] else None


def _newest_of_name(name: str | None, studies: pd.DataFrame) -> str | None:
    """As the command line resolves a name: the newest study with valid runs, or the newest one if none has any."""
    return None if studies.empty else default_study(studies[studies["study_name"] == name])


def _older_job(wanted: str | None) -> str | None:
    """The label of a job that is not listed."""
    if not wanted:
        return None
    try:
        job = queue.job(published_data.engine(), url_params.job_id_of(wanted))
    except UserError:
        return None
    return url_params.job_label(job.name, job.job_id)


def _changed() -> None:
    """Explore follows the bar; what else is chosen stays if the new study has it."""
    url_widgets.forget_missing(JOB)
    url_widgets.study_changed()


def _show_state(job_id: str) -> None:
    try:
        job = queue.job(published_data.engine(), job_id)
    except UserError:
        st.badge("not from this queue", color="gray", icon=":material/upload_file:")
        return
    (_show_live_badge if job.state in ACTIVE else show_badge)(job)


@st.fragment(run_every=_REFRESH_EVERY)
def _show_live_badge(job: Job) -> None:
    """Follows a queued or running job until the page is drawn again."""
    with show_user_errors():
        show_badge(queue.job(published_data.engine(), job.job_id))


def _show_failure(failure: Failure) -> None:
    reason = failure.reason if len(failure.reason) <= _MAX_REASON else f"{failure.reason[:_MAX_REASON]}…"
    st.page_link(
        page_file("jobs"),
        label=f"A newer study, {literal(failure.name)}, failed: {literal(reason)}",
        icon=":material/error:",
        query_params={JOB.key: url_params.job_label(failure.name, failure.job_id)},
        width="content",
    )


def _studies() -> pd.DataFrame:
    """The studies with results; none if the warehouse does not answer, which each page that needs it says itself."""
    try:
        return pd.DataFrame() if published_data.publication() is None else published_data.studies_with_results()
    except (UserError, duckdb.Error):
        return pd.DataFrame()


def _jobs() -> list[Job]:
    """The newest jobs; none if the job table does not answer, which each page that needs it says itself."""
    try:
        return queue.jobs(published_data.engine(), limit=_MAX_JOBS)
    except (UserError, *DATABASE_ERRORS):
        return []


def _utc(moment: datetime) -> datetime:
    stamp = pd.Timestamp(moment)
    return (stamp.tz_localize("UTC") if stamp.tzinfo is None else stamp.tz_convert("UTC")).to_pydatetime()
