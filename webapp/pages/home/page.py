"""Home: the newest answer of each target as one picture, what runs, what ended or failed, and the workers."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from access.web import visitor
from jobs import listing, queue
from jobs.fleet.worker_registry import WorkerInfo
from jobs.host_report import HostReport, last_report
from jobs.presets import load_preset
from jobs.table import ACTIVE
from lab.errors import StudyError
from lab.roles import Change
from lab.study.duration import rough_duration
from warehouse.queries.comparing.answers import Headline
from webapp.pages.home import figures, tables
from webapp.pages.jobs import sections as jobs_sections
from webapp.pages.jobs import workers as workers_list
from webapp.pages.submit.form_options import DEMO
from webapp.shared import published_data, url_params, url_widgets
from webapp.shared.errors import show_user_errors
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import show_rows
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import JOB, View, page_file
from webapp.shared.verdicts import answers

#: Answers below the picture, the newest first.
_MOST_ANSWERS = 6
_FIELD_WIDTH = 195


def show_page() -> None:
    st.title("Home", anchor=False)
    with show_user_errors():
        published = published_data.publication()
        counts = listing.counts(published_data.engine())
        last_ended = queue.ended(published_data.engine(), tables.MAX_ENDED)
        workers = published_data.workers(published_data.engine())
        studies = pd.DataFrame() if published is None else published_data.studies_with_results()
        headlines = tables.read_headlines()
    with show_user_errors():
        if studies.empty and not set(counts) & set(ACTIVE):
            show_first_steps(workers)
        if headlines:
            show_answers(headlines)
        elif not studies.empty:
            st.caption("No verdicts yet. A verdict needs valid runs of a baseline and another arm at the same load.")
        jobs_sections.show_active(published_data.engine(), counts, with_queue=False)
        show_ended(tables.ended(last_ended, studies), studies)
        workers_list.show(published_data.engine())
        if visitor.allowed(Change.AUDIT, None):
            show_verification(last_report(published_data.settings().home))
    published_data.rerun_when_published(published, "5s")


def show_answers(headlines: Sequence[Headline]) -> None:
    """Show one picture of the newest answers, and what each says."""
    parameters: dict[str, Sequence[str]] = {}
    if figures.has_costs():
        with st.container(width=_FIELD_WIDTH):
            chosen = url_widgets.choose(url_params.YIELD, list(figures.YIELDS))
        parameters = {} if chosen == figures.YIELDS[0] else {url_params.YIELD.key: (chosen,)}
    show_figures(figures.figures(parameters, colour_mode()), colour_mode(), View("home", parameters))
    with st.container(border=True, gap="xsmall"):
        for headline in headlines[:_MOST_ANSWERS]:
            answers.show_line(headline.job_id, tables.title(headline))
    if not figures.has_costs():
        st.markdown(":small[No hourly price for this hardware, so no cost: [set one on Cost](cost).]")


def show_first_steps(workers: Sequence[WorkerInfo]) -> None:
    """Show three ways to start before the first study; the demo takes one click."""
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
        f"{count(takes.runs, 'run')}, about {rough_duration(takes.wall_s)}, no GPU needed."
    )
    if all(worker.is_away() for worker in workers):
        st.caption(
            ":orange[:material/warning:] No worker is running: the study will wait in the queue until `drafthouse up` "
            "or `drafthouse worker` starts one."
        )
    if visitor.allowed_any(Change.SUBMIT) and st.button(
        "Run the demo study", type="primary", icon=":material/play_arrow:"
    ):
        try:
            newest = queue.newest_of_study(published_data.engine(), study.digest())
            if newest is None or newest.state not in ACTIVE:
                queue.submit(published_data.settings(), study, actor=visitor.actor())
        except StudyError as error:
            st.error(literal(error), icon=":material/block:")
        else:
            st.rerun()


def show_ended(ended: pd.DataFrame, studies: pd.DataFrame) -> None:
    if ended.empty:
        return
    st.subheader("Finished last", anchor=False)
    if not studies.empty:
        st.caption(measured_sentence(studies))
    show_rows(ended, tables.ENDED_COLUMNS, "The studies that finished last")


def show_verification(report: HostReport | None) -> None:
    """Show administrators the last findings of `drafthouse verify` on this host."""
    if report is None:
        return
    wrong = sum(not finding.ok for finding in report.findings)
    words = "all lines ok" if not wrong else f"{wrong} of {count(len(report.findings), 'line')} wrong"
    icon = ":material/verified:" if not wrong else ":material/warning:"
    with st.expander(f"This host, verified {moment(report.at)}: {words}", icon=icon, expanded=bool(wrong)):
        st.table(tables.verification(report.findings))
        if report.job_id is not None:
            parameters = {JOB.key: report.job_id}
            st.page_link(page_file("results"), label="Its study", icon=":material/monitoring:", query_params=parameters)


def measured_sentence(studies: pd.DataFrame) -> str:
    """Return how much was measured. `studies`: as `queries.jobs_with_results` returns it."""
    sums = ["runs_completed", "runs_invalid", "runs_failed"]
    here, imported = studies[studies["origin"] != "imported"], studies[studies["origin"] == "imported"]
    counts = tables.run_counts(here[sums].sum().to_dict())
    more = f"; besides, {count(tables.run_counts(imported[sums].sum().to_dict()).completed, 'imported run')}"
    return (
        f"Measured here: {count(counts.completed, 'run')} in {count(len(here), 'study', 'studies')} of "
        f"{count(here['target'].nunique(), 'target')}; {counts.lost}{more if len(imported) else ''}."
    )


if __name__ == "__main__":
    show_page()
