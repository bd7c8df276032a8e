"""Results: one study's speed-up, throughput and acceptance, its tables, and what failed."""

from __future__ import annotations

import math

import pandas as pd
import streamlit as st

from access.shared_links import Kind
from jobs.table import Job
from lab.comparison.verdict import READING_WORDS
from lab.metrics.definition import Metric
from lab.study.plan import plan
from warehouse.queries.comparing.comparisons import StudyComparison
from webapp.charts import panels
from webapp.charts.results import BY_LABEL
from webapp.pages.results import figures, tables
from webapp.shared import curating, dialogs, published_data, study_picker, url_params, url_widgets
from webapp.shared.cards import show_cards
from webapp.shared.errors import show_user_errors
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import show_table
from webapp.shared.text import count, literal
from webapp.shared.url_params import View
from webapp.shared.verdicts import answers, arm_cards, standing
from webapp.shared.verdicts import tables as verdict_tables

#: The parameter with a claimed ratio.
_CLAIM, _LEAST_CLAIM = "claim", 0.01
_MIN_FIELD_WIDTH = 195


def show_page() -> None:
    with st.grid(4, min_column_width=_MIN_FIELD_WIDTH, gap="small", vertical_alignment="bottom"):
        title, category_column, metric_column, share_column = (st.container() for _ in range(4))
    title.title("Results", anchor=False)
    study_picker.show_empty_state()

    with show_user_errors():
        job_id = study_picker.chosen_study()
        runs = published_data.results(job_id)
        with category_column:
            categories = sorted(runs["category"].dropna().astype(str))
            category = url_widgets.choose(
                url_params.CATEGORY, list(dict.fromkeys([figures.ALL_CATEGORIES, *categories]))
            )
        with metric_column:
            measure = BY_LABEL[url_widgets.choose(url_params.METRIC, list(BY_LABEL))]
        url_widgets.report_missing(url_params.CATEGORY, url_params.METRIC)
        judgement = standing.choose(job_id)
        cells = figures.of_category(published_data.cells(job_id, measure.name, judgement), category)
        whole = published_data.comparison(job_id, measure.name, judgement)
        whole = None if whole is None or not whole.pairs else whole
        compared = whole
        if whole is not None and category != figures.ALL_CATEGORIES:
            compared = arm_cards.of_category(whole, category)
        state = published_data.job(job_id)

    name = runs["study_name"].iloc[0] if len(runs) else None
    parameters: dict[str, tuple[str, ...]] = {"job": (job_id,), "category": (category,), "metric": (measure.label,)}
    view = View("results", parameters | standing.link(job_id, judgement))
    with share_column, st.container(horizontal=True, horizontal_alignment="right", gap="small"):
        curating.show_menu(job_id, name if isinstance(name, str) else job_id)
        called = name if isinstance(name, str) else "A study"
        dialogs.show_share_menu(Kind.STUDY, job_id, called, view, owner=curating.owner_of(job_id))
    mode = colour_mode()
    drawn = figures.draw(job_id, category, measure.name, judgement, mode)
    curating.show(job_id)
    answers.show(job_id, measure.name, judgement)
    show_figures(drawn[:1], mode, view)
    if not (~cells["is_baseline"] & cells["ratio"].notna()).any():
        needed = f"{literal(measure.label)} needs the baseline and another arm at the same load"
        study_picker.show_nothing_to_compare(runs, needed)
    if whole is not None and compared is not None:
        _show_details(whole, compared, measure, judgement)
    study_picker.show_caveats(runs, state)
    if compared is not None:
        show_comparison(compared, cells, measure)
    show_cards([tables.runs_card(runs, None if state is None else _planned(state)), tables.hardware_card(runs)])
    show_figures(drawn[1:], mode, view)
    show_tables(cells, figures.of_category(runs, category), whole, category, measure=measure, view=view)
    study_picker.follow(state)


def _show_details(whole: StudyComparison, compared: StudyComparison, measure: Metric, judgement: str) -> None:
    """Show each workload's answer, when the verdicts were stored, and the check of a claim; folded unless requested."""
    standing.show_change(whole)
    is_asked = _CLAIM in st.query_params
    with st.expander("By workload, how sure, and a claim to check", icon=":material/rule:", expanded=is_asked):
        answers.show_details(whole.jobs[0], measure.name, judgement)
        standing.show(whole)
        with st.container(width=_MIN_FIELD_WIDTH):
            claimed = _choose_claim()
        if claimed is not None:
            st.info(literal(tables.claim_sentence(claimed, compared)), icon=":material/gavel:")


def _choose_claim() -> float | None:
    """Draw the field for a claimed ratio, from the reader or the link."""
    url_widgets.seed(_CLAIM, _claim, None)
    claimed: float | None = st.number_input(
        "Claimed (×)",
        min_value=_LEAST_CLAIM,
        value=None,
        step=0.1,
        format="%g",
        placeholder="none",
        key=_CLAIM,
        help="A ratio to the baseline that somebody named, such as 2 for twice as fast",
    )
    url_widgets.record(_CLAIM, None if claimed is None else f"{claimed:g}")
    return claimed


def _claim(text: str) -> float:
    """Parse a claimed ratio. Raises ValueError for any other text."""
    claimed = float(text)
    if not (math.isfinite(claimed) and claimed >= _LEAST_CLAIM):
        raise ValueError(f"{text!r} is not a ratio")
    return claimed


def show_comparison(compared: StudyComparison, cells: pd.DataFrame, measure: Metric) -> None:
    """Show each arm over all of its cells, then the best single cell, marked as such."""
    order = panels.arms_of(cells, published_data.arms(compared.jobs[0]))
    candidates = {pair.candidate.arm for pair in compared.pairs}
    more = arm_cards.show(compared, [arm for arm in order if arm in candidates])
    noun = "speed-up" if measure.higher_is_better else "ratio"
    show_cards([tables.best_card(compared, noun), tables.break_even_card(compared)])
    besides = f" {count(more, 'more arm')} in the tables below." if more else ""
    reading = READING_WORDS[compared.strict]
    st.caption(
        f"{tables.repeats_sentence(cells)} {reading[:1].upper()}{reading[1:]}.{tables.rules_sentence(compared)}"
        f"{besides}"
    )


def _planned(job: Job) -> int | None:
    """Return the job's number of runs; None while it still depends on outcomes."""
    if job.study.runs_are_planned:
        return sum(len(launch.runs) for launch in plan(job.study))
    return job.progress.runs_total if job.progress and job.progress.end_reason else None


def show_tables(
    cells: pd.DataFrame,
    runs: pd.DataFrame,
    compared: StudyComparison | None,
    category: str,
    *,
    measure: Metric,
    view: View,
) -> None:
    (job_id,) = view.parameters[url_params.JOB.key]

    def show_cells() -> None:
        shown = tables.cells(cells, panels.arms_of(cells, published_data.arms(job_id)))
        show_table(shown, tables.cell_config(measure), "Each arm, category and load", view, "cells")

    def show_runs() -> None:
        show_table(tables.runs(runs), tables.RUN_COLUMNS, "Each run", view, "runs")
        if not any(runs[name].notna().any() for name in tables.GPU if name in runs):
            st.caption("No GPU was found in these runs, so there is no power, energy or GPU use.")

    def show_findings() -> None:
        found, none = published_data.findings(job_id), "The checks found nothing in these runs."
        is_shown = (category == figures.ALL_CATEGORIES) | (found["category"] == category) | found["run_id"].isna()
        shown = found.loc[is_shown, tables.FINDINGS]
        show_table(shown, tables.FINDING_COLUMNS, "What the checks found", view, "checks", if_empty=none)

    def show_failed() -> None:
        failed = published_data.failed_runs(job_id)
        shown = tables.failed(figures.of_category(failed, category))
        none = f"No run of this {'study' if failed.empty else 'category'} failed."
        show_table(shown, tables.RUN_COLUMNS, "Runs that failed, and why", view, "failed", if_empty=none)

    url_widgets.show_tabs(
        url_params.RESULTS_TAB,
        {
            "Cells": show_cells,
            "Verdicts": lambda: _show_verdicts(compared, runs, view),
            "Runs": show_runs,
            "Checks": show_findings,
            "Failed runs": show_failed,
        },
    )


def _show_verdicts(compared: StudyComparison | None, runs: pd.DataFrame, view: View) -> None:
    categories = set(runs["category"].dropna())
    if compared is None or not compared.pairs:
        st.caption("No verdicts yet: a verdict needs valid runs of the baseline and of another arm at the same load.")
        return
    agreed = published_data.agreements(compared)
    shown = verdict_tables.verdicts(compared, agreed, min(categories) if len(categories) == 1 else None)
    if agreed is None:
        st.caption(f"There are too many outputs to compare on a page: run `drafthouse compare {compared.jobs[0]}`.")
    config, none = verdict_tables.verdict_config(shown, strict=compared.strict), "No pair in this category."
    show_table(shown, config, "Whether each arm is faster", view, "verdicts", if_empty=none)


if __name__ == "__main__":
    show_page()
