"""The parts of the results page, top to bottom."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from jobs import queue
from jobs.table import Job
from lab.errors import UserError
from lab.study.plan import plan
from webapp.charts import panels
from webapp.charts.measures import Measure
from webapp.pages.results import figures as results_figures
from webapp.pages.results import summary
from webapp.shared import drawing, open_tabs, published_data, tables, url_params, verdict_tables
from webapp.shared.about import View
from webapp.shared.errors import said_here
from webapp.shared.page_files import page_file
from webapp.shared.text import count, literal

#: The name that stands for the model this project ships.
REFERENCE_TARGET = "reference"
_LOOK_EVERY = "2s"


def show_empty_state() -> None:
    """Until there is a first run: what will be here, and how to get it. Ends the page then."""
    with said_here():
        if published_data.publication() is not None and not published_data.studies_with_results().empty:
            return
        active = [job for job in queue.jobs(published_data.engine()) if job.state in ("queued", "running")]
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
                "The demo study is filled in and runs on any machine.",
                text_alignment="center",
            )
            if st.button("Submit the first study", type="primary", icon=":material/add_circle:"):
                st.switch_page(page_file("submit"))
        st.space("medium")
    _watch(published_data.publication())
    st.stop()


def labels(studies: pd.DataFrame) -> list[str]:
    return [url_params.job_label(*pair) for pair in zip(studies["study_name"], studies["job_id"], strict=True)]


def categories(runs: pd.DataFrame) -> list[str]:
    """What the category can be narrowed to; `all` first."""
    return list(dict.fromkeys([results_figures.ALL_CATEGORIES, *sorted(runs["category"].dropna().astype(str))]))


def job_state(job_id: str) -> Job | None:
    """The job behind the results; None where this host's queue does not know it (bundles from elsewhere)."""
    try:
        return queue.job(published_data.engine(), job_id)
    except UserError:
        return None


def show_circumstances(runs: pd.DataFrame, job: Job | None, checks: str = "the tab Checks") -> None:
    """Whether it is still going on, what was measured, and what must be known before a figure is believed.

    `checks`: where a reader finds what the checks said.
    """
    if job is not None and job.state in ("queued", "running"):
        st.info(
            f"This study is {job.state}: what is measured so far is shown, and the page follows.",
            icon=":material/progress_activity:",
        )
    if tools := sorted(set(runs["tool"][runs["origin"] == "imported"].dropna())):
        st.caption(
            f":material/upload_file: Imported from files of {literal(', '.join(tools))}: what they do not tell is "
            "empty here, and checks that need it did not look."
        )
    completed = runs["status"] == "completed"
    if left_out := int((completed & (runs["is_valid"] == False)).sum()):  # noqa: E712 - null is unknown, and stays in
        st.warning(
            f"{count(left_out, 'run')} of {completed.sum()} cannot be believed and are left out of charts and "
            f"comparisons; {checks} says why.",
            icon=":material/gpp_bad:",
        )
    if set(runs["target"]) == {REFERENCE_TARGET}:
        st.caption(
            ":material/info: The target is the reference model: a reference load, not a useful model, padded until a "
            "step costs something, so that speculation can pay without a GPU. Read its curves' shape, not their speed."
        )


def show_cards(speedups: pd.DataFrame, runs: pd.DataFrame, measure: Measure, job: Job | None) -> None:
    best = summary.best_cell(speedups, higher_is_better=measure.higher_is_better)
    noun = "speed-up" if measure.higher_is_better else "ratio"
    planned = sum(len(launch.runs) for launch in plan(job.study)) if job else None
    cards = [summary.best_card(best, noun), summary.runs_card(runs, planned)]
    if measure.higher_is_better:
        cards.insert(1, summary.break_even_card(speedups, best))
    cards.append(summary.hardware_card(runs))
    drawing.show_cards(cards)
    st.caption(summary.repeats_sentence(speedups))


def show_figures(speedups: pd.DataFrame, measure: Measure, view: View) -> None:
    mode = drawing.mode()
    if not (~speedups["is_baseline"] & speedups["ratio"].notna()).any():
        st.info(f"Nothing to compare yet: {literal(measure.label)} needs the baseline and another arm on one load.")
    drawing.show_figures(results_figures.drawn(view.parameters, mode), mode, view)


def show_tables(speedups: pd.DataFrame, runs: pd.DataFrame, *, measure: Measure, view: View) -> None:
    (job_id,) = view.parameters[url_params.JOB.key]

    def show_cells() -> None:
        shown = tables.cells(speedups, panels.arms_of(speedups, published_data.arms(job_id)))
        drawing.show_table(shown, tables.cell_config(measure), "Each arm, category and load", view, "cells")

    open_tabs.show(
        url_params.RESULTS_TAB,
        {
            "Cells": show_cells,
            "Verdicts": lambda: _show_verdicts(job_id, measure, runs, view),
            "Runs": lambda: _show_runs(runs, view),
            "Checks": lambda: _show_findings(published_data.findings(job_id), view),
            "Failed runs": lambda: _show_failed(published_data.failed_runs(job_id), view),
        },
    )


def _show_verdicts(job_id: str, measure: Measure, runs: pd.DataFrame, view: View) -> None:
    compared = published_data.comparison(job_id, measure.column)
    categories = set(runs["category"].dropna())
    if compared is None or not compared.pairs:
        st.caption("Nothing to judge yet: a verdict needs valid runs of the baseline and of another arm on one load.")
        return
    agreed = published_data.agreements(job_id, measure.column, compared)
    shown = verdict_tables.verdicts(compared, agreed, min(categories) if len(categories) == 1 else None)
    if agreed is None:
        st.caption(f"Whether outputs are the same: `drafthouse compare {job_id}` (there are too many for a page).")
    if shown.empty:
        st.caption("No pair of this category.")
    else:
        drawing.show_table(shown, verdict_tables.verdict_config(), "Whether each arm is faster", view, "verdicts")


def _show_runs(runs: pd.DataFrame, view: View) -> None:
    drawing.show_table(tables.runs(runs), tables.run_config(), "Each run", view, "runs")
    if not tables.saw_gpu(runs):
        st.caption("No GPU was seen in these runs: there are no figures of power, energy and GPU use.")


def _show_failed(failed: pd.DataFrame, view: View) -> None:
    if failed.empty:
        st.caption("No run of this study failed.")
    else:
        drawing.show_table(tables.failed(failed), tables.run_config(), "Runs that failed, and why", view, "failed")


def _show_findings(findings: pd.DataFrame, view: View) -> None:
    if findings.empty:
        st.caption("No check had anything to say about these runs.")
    else:
        shown = verdict_tables.findings(findings)
        drawing.show_table(shown, verdict_tables.findings_config(), "What the checks found", view, "checks")


def follow(job: Job | None) -> None:
    """While the study goes on, look for a new publication and show it."""
    if job is not None and job.state in ("queued", "running"):
        _watch(published_data.publication())


@st.fragment(run_every=_LOOK_EVERY)
def _watch(seen: published_data.Publication) -> None:
    if published_data.publication() != seen:
        st.rerun()
