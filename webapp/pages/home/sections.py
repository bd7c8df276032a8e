"""The parts of the Home page, top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from jobs import queue
from jobs.presets import load_preset
from jobs.table import ACTIVE, Job
from jobs.worker_registry import WorkerInfo
from lab.errors import StudyError
from warehouse.queries.headlines import Headline
from webapp.pages.home import cards as home_cards
from webapp.pages.home import tables
from webapp.pages.jobs import sections
from webapp.pages.submit.form_options import DEMO
from webapp.shared import published_data
from webapp.shared.cards import show_cards
from webapp.shared.errors import show_user_errors
from webapp.shared.tables import show_table
from webapp.shared.text import count, duration, literal
from webapp.shared.url_params import View, page_file

_LOOK_EVERY = "5s"


def show_summary(
    jobs: Sequence[Job], ended: pd.DataFrame, studies: pd.DataFrame, workers: Sequence[WorkerInfo]
) -> None:
    cards = [home_cards.now_card(jobs), home_cards.finished_card(ended), home_cards.measured_card(studies)]
    show_cards([*cards, home_cards.workers_card(workers, datetime.now(UTC))])


def show_first_steps(workers: Sequence[WorkerInfo]) -> None:
    """Before the first study: three ways to start, the demo with one click."""
    st.subheader("Start here: nothing has been measured yet", anchor=False)
    with st.grid(3, gap="small", min_column_width=260):
        with st.container(border=True, height="stretch"):
            st.markdown("**1 · Run the demo study**")
            _show_demo(workers)
        with st.container(border=True, height="stretch"):
            st.markdown("**2 · Measure your own model**")
            st.markdown(
                "Name the model and its drafts, choose prompts and loads. The form checks each field and estimates how "
                "long the study will take."
            )
            st.page_link(page_file("submit"), label="Describe a study", icon=":material/add_circle:")
        with st.container(border=True, height="stretch"):
            st.markdown("**3 · Look at published results**")
            st.markdown(
                "Published figures are included, with notes on doubtful ones. You can import files of other tools."
            )
            st.page_link(page_file("external_results"), label="External results", icon=":material/groups:")


def _show_demo(workers: Sequence[WorkerInfo]) -> None:
    study = load_preset(DEMO)
    takes = published_data.forecast(study)
    st.markdown(
        f"{count(len(study.arms), 'arm')} on the small reference model that is included: "
        f"{count(takes.runs, 'run')}, about {duration(takes.seconds)}, no GPU needed."
    )
    if all(worker.is_away() for worker in workers):
        st.caption(
            ":orange[:material/warning:] No worker is running: the study will wait in the queue until `drafthouse up` "
            "or `drafthouse worker` starts one."
        )
    if st.button("Run the demo study", type="primary", icon=":material/play_arrow:"):
        try:
            _submit_demo()
        except StudyError as error:
            st.error(literal(error), icon=":material/block:")
        else:
            st.rerun()


def _submit_demo() -> None:
    """Submit the demo study unless one is queued or running. Raises StudyError."""
    study = load_preset(DEMO)
    active = [job for job in sections.all_jobs(published_data.engine()) if job.state in ACTIVE]
    if all(job.study_id != study.digest() for job in active):
        queue.submit(published_data.settings(), study)


def show_headlines(found: Sequence[Headline]) -> None:
    st.subheader("Where speculation pays most, by target", anchor=False)
    if not found:
        st.caption("No target has a headline yet: needs valid runs of a baseline and of another arm at the same load.")
        return
    show_table(
        tables.headlines(found),
        tables.headline_config(),
        "The headline of each target",
        View(""),
        "headlines",
    )
    if any(each.ratio.low is None for each in found):
        st.caption("One repeat gives no interval, as it does not show how much runs vary. Use three repeats or more.")


def show_ended(ended: pd.DataFrame) -> None:
    if ended.empty:
        return
    st.subheader("Finished last", anchor=False)
    st.dataframe(
        ended,
        hide_index=True,
        placeholder="",
        column_config=tables.ended_config(),
        alt="The studies that finished last",
    )


@st.fragment(run_every=_LOOK_EVERY)
def follow(published: published_data.Publication, shown: Sequence[str]) -> None:
    """Rerun the page at a new publication, or when the queued and running studies change."""
    with show_user_errors():
        jobs = sections.all_jobs(published_data.engine())
    if published_data.publication() != published or active(jobs) != list(shown):
        st.rerun()


def active(jobs: Sequence[Job]) -> list[str]:
    return [job.job_id for job in jobs if job.state in ACTIVE]
