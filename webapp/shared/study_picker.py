"""What every page of one study shares: its empty state, its caveats, and following the study while it runs."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from jobs import queue
from jobs.table import ACTIVE, Job, State
from lab.errors import UserError
from webapp.shared import published_data, study_bar, url_params
from webapp.shared.errors import show_user_errors
from webapp.shared.text import count, literal
from webapp.shared.url_params import page_file

#: The name of the model that this project ships.
REFERENCE_TARGET = "reference"
_LOOK_EVERY = "2s"
_STATES: dict[State, str] = {
    "queued": "is queued",
    "running": "is running, and its first run has not ended yet",
    "done": "is done, and its runs are not published yet",
    "failed": "failed",
    "cancelled": "was cancelled",
}


def show_empty_state() -> None:
    """Before the first run: say what the page will show and how to get there, and end the page."""
    with show_user_errors():
        if published_data.publication() is not None and not published_data.studies_with_results().empty:
            return
        active = queue.active(published_data.engine())
    with st.container(border=True, horizontal_alignment="center"):
        st.space("medium")
        if active:
            st.subheader("No results yet: the first study is on its way", anchor=False, text_alignment="center")
            st.markdown(
                f"{literal(active[0].name)} is {active[0].state}. Its first run appears here seconds after it ends.",
                text_alignment="center",
            )
            st.page_link(page_file("jobs"), label="Watch it on the Jobs page", icon=":material/list_alt:")
        else:
            st.subheader("No results yet: nothing has been measured here", anchor=False, text_alignment="center")
            st.markdown(
                "Submit a study and this page shows where a draft model pays and where it costs. "
                "The form starts with the demo study, which runs on any machine.",
                text_alignment="center",
            )
            if st.button("Submit the first study", type="primary", icon=":material/add_circle:"):
                st.switch_page(page_file("submit"))
        st.space("medium")
    _watch(published_data.publication())
    st.stop()


def chosen_study() -> str:
    """The id of the study in the bar. Ends the page with the reason if it has no results (yet)."""
    chosen: str = st.session_state[url_params.JOB.key]
    job_id = url_params.job_id_of(chosen)
    studies = published_data.studies_with_results()
    if job_id not in set(studies["job_id"]):
        _show_without_results(job_id, study_bar.default_study(studies))
    return job_id


def _show_without_results(job_id: str, default: str | None) -> None:
    job = job_state(job_id)
    error = "" if job is None or not job.error else f" ({literal(job.error.splitlines()[0])})"
    verb = "is unknown here" if job is None else _STATES[job.state]
    st.info(f"This study has no results: it {verb}{error}.", icon=":material/hourglass_empty:")
    with st.container(horizontal=True):
        query = {url_params.JOB.key: job_id}
        st.page_link(page_file("jobs"), label="Its job", icon=":material/list_alt:", query_params=query)
        if default is not None:
            query = {url_params.JOB.key: default}
            label = f"The newest study with valid runs: {literal(default)}"
            st.page_link(page_file("results"), label=label, icon=":material/monitoring:", query_params=query)
    _watch(published_data.publication())
    st.stop()


def job_state(job_id: str) -> Job | None:
    """The job behind the results, or None if it is not in this queue (imported bundles)."""
    try:
        return queue.job(published_data.engine(), job_id)
    except UserError:
        return None


def show_caveats(runs: pd.DataFrame, job: Job | None, checks: str = "the tab Checks") -> None:
    """Say what limits the results: a study still running, imported or invalid runs, the reference model.

    `checks`: where the page shows the findings of the checks.
    """
    if job is not None and job.state in ACTIVE:
        st.info(
            f"This study is {job.state}: the page shows what is measured so far and updates itself.",
            icon=":material/progress_activity:",
        )
    tools = sorted(set(runs["tool"][runs["origin"] == "imported"].dropna()))
    if "drafthouse" in tools:
        tools.remove("drafthouse")
        st.caption(
            ":material/upload_file: Not measured here: imported from a folder that another Drafthouse exported. The "
            "page of a run says by whom, and from which job."
        )
    if tools:
        st.caption(
            f":material/upload_file: Imported from files of {literal(', '.join(tools))}: unknown values are empty, "
            "and checks that need them were skipped."
        )
    completed = runs["is_counted"] & (runs["status"] == "completed")
    if invalid := int((completed & (runs["is_valid"] == False)).sum()):  # noqa: E712 - null is unknown, and stays in
        st.warning(
            f"{count(invalid, 'run')} of {completed.sum()} failed validity checks; charts and comparisons exclude "
            f"{'it' if invalid == 1 else 'them'}. {checks[0].upper()}{checks[1:]} shows why.",
            icon=":material/gpp_bad:",
        )
    if set(runs["target"]) == {REFERENCE_TARGET}:
        st.caption(
            ":material/info: The target is the reference model: not a useful model, but one padded until a step costs "
            "enough for speculation to pay without a GPU. Read the shape of its curves, not their speed."
        )


def show_nothing_to_compare(runs: pd.DataFrame, needed: str) -> None:
    """`needed`: what a comparison needs, as a sentence without its end."""
    unmarked = (runs["origin"] == "imported").all() and not runs["is_baseline"].fillna(value=False).any()
    how = (
        ". No imported run is marked as the baseline: on External results, remove these runs and import the baseline's "
        "files with Baseline ticked and the other files without, all with the same name of the study"
    )
    st.info(f"Nothing to compare yet: {needed}{how if unmarked else ''}.")


def follow(job: Job | None) -> None:
    """While the study is queued or running, rerun the page at each new publication."""
    if job is not None and job.state in ACTIVE:
        _watch(published_data.publication())


@st.fragment(run_every=_LOOK_EVERY)
def _watch(shown: published_data.Publication) -> None:
    if published_data.publication() != shown:
        st.rerun()
