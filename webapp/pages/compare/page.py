"""Compare: one study's arms against a baseline: ratios, break-even, acceptance, latencies and outputs; or arms of
several studies (`across`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urljoin

import streamlit as st

from jobs.forecast import follow_up_seconds
from lab.comparison import surface
from lab.comparison.agreement import Agreement
from lab.comparison.verdict import READING_WORDS
from lab.metrics.number_format import percentage
from lab.quality.non_inferiority import MARGIN
from webapp.pages.compare import across, data, figures, outputs, report, tables
from webapp.pages.compare.selection import BY_LABEL, HEAT_ROWS, READINGS, Selection, baselines
from webapp.shared import published_data, study_picker, url_params, url_widgets
from webapp.shared.errors import show_user_errors
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import show_table
from webapp.shared.text import count, literal
from webapp.shared.url_params import View
from webapp.shared.verdicts import arm_cards, capacities, standing
from webapp.shared.verdicts import tables as verdict_tables

_READING_HELP = (
    "How the verdicts of this study are corrected: at most 5 % are expected to be wrong, or, with 95 % confidence, "
    "none is (for a public claim). The intervals are corrected in the same way."
)
#: Choices, how many side by side (in six columns the names of metrics would be cut), and the pixels that each needs.
_CHOICES, _CHOICES_A_ROW, _CHOICE_WIDTH = 6, 3, 160


def show_page() -> None:
    st.title("Compare", anchor=False)
    study_picker.show_empty_state()

    with show_user_errors():
        job_id = study_picker.chosen_study()
        if across.is_chosen():
            across.show(job_id)
            return
        selection = _choose(job_id)
        runs = published_data.results(job_id)
        if not selection.pairs:
            study_picker.show_nothing_to_compare(
                runs, "needs valid runs of the baseline and of another arm at the same load"
            )
        study_picker.show_caveats(runs, published_data.job(job_id))
        if not selection.pairs:
            st.stop()
        _show_worse(selection)
        _show_gaps(selection)
        _show_summary(selection)
        standing.show_change(selection.comparison)
        standing.show(selection.comparison)
        _show_report_button(selection)
        carried, of_all, of_cell = st.container(), st.container(), st.container()
        with of_cell:
            selection = _choose_cell(selection)
        with carried:
            capacities.show(job_id, selection.view, strict=selection.comparison.strict)
        with of_all:
            _show_charts(figures.OF_ALL, selection)
        with of_cell:
            _show_charts(figures.OF_CELL, selection)
        _show_tables(selection)
        outputs.show(selection)
    study_picker.follow(published_data.job(job_id))


def _choose(job_id: str) -> Selection:
    """Choose baseline, candidates, metric and other studies. Raises UserError where nothing can be compared."""
    with st.grid(_CHOICES_A_ROW, gap="small", min_column_width=_CHOICE_WIDTH) as grid:
        candidates, baseline, metric, readings, rows, others = (grid.cell() for _ in range(_CHOICES))
    with others:
        across.choose_others(job_id)
    with baseline:
        base = url_widgets.choose(
            url_params.BASELINE, baselines(job_id), help_text="The arm that the others are compared with"
        )
    if not capacities.has_ordinary_runs(job_id):
        capacities.show(job_id, View("compare", {url_params.JOB.key: (job_id,)}))
        study_picker.follow(published_data.job(job_id))
        st.stop()
    with metric:
        measure = url_widgets.choose(url_params.METRIC, list(BY_LABEL))
    with readings:
        reading = url_widgets.choose(url_params.READING, list(READINGS), help_text=_READING_HELP)
    selection = Selection(job_id, base, measure, reading, judgement=standing.choose(job_id))
    with candidates:
        chosen = url_widgets.choose_many(url_params.CANDIDATES, selection.candidates, placeholder="All")
    with rows:
        heat_rows = url_widgets.choose(url_params.HEAT_ROWS, HEAT_ROWS)
    url_widgets.report_missing(url_params.BASELINE, url_params.METRIC, url_params.HEAT_ROWS, url_params.READING)
    url_widgets.report_missing(url_params.CANDIDATES, url_params.WITH)
    return replace(selection, chosen=tuple(chosen), heat_rows=heat_rows)


def _show_charts(keys: Sequence[str], selection: Selection) -> None:
    """Show the figures one after the other: the first can be seen while the others are computed."""
    mode = colour_mode()
    for key in keys:
        if (figure := figures.figure(key, selection, mode)) is not None:
            show_figures([figure], mode, selection.view)


def _choose_cell(selection: Selection) -> Selection:
    """Choose one workload and one load."""
    workload_column, load_column, _ = st.columns([2, 1.2, 2])
    with workload_column:
        workload = url_widgets.choose(url_params.AT_WORKLOAD, selection.workloads)
    selection = replace(selection, workload=workload)
    with load_column:
        load = url_widgets.choose(url_params.AT_LOAD, selection.loads)
    url_widgets.report_missing(url_params.AT_WORKLOAD, url_params.AT_LOAD)
    return replace(selection, load=load)


def _show_summary(selection: Selection) -> None:
    """Show a card per candidate: the geometric mean over its cells, the interval, and how many cells are faster."""
    more = arm_cards.show(selection.comparison, selection.candidates)
    besides = f" {count(more, 'more arm')} in the tables below." if more > 0 else ""
    st.caption(
        f"{literal(selection.measure.label)} over {literal(selection.baseline)}, geometric mean and 95 % "
        f"interval; {READING_WORDS[selection.comparison.strict]}.{besides}"
    )


def _show_report_button(selection: Selection) -> None:
    """Show a button to download the report of the whole comparison, whichever candidates are chosen."""
    job_id, comparison, page = selection.job_id, selection.comparison, urljoin(st.context.url or "", ".")

    def make() -> bytes:
        forecast = functools.partial(follow_up_seconds, published_data.settings(), published_data.engine())
        made = report.Made(published_data.arms(job_id), page, published_data.published_at(), forecast)
        return published_data.with_warehouse(report.archive)(comparison, made)

    st.download_button(
        "Report (Markdown)",
        make,
        report.file_name(comparison),
        "application/zip",
        icon=":material/download:",
        on_click="ignore",
        help="A ZIP file for a pull request or a chat: the answer and all verdicts as Markdown, and a picture as PNG",
    )


def _show_worse(selection: Selection) -> None:
    """Show which arms give worse answers than the baseline, above any figure of speed."""
    for found in data.qualities(selection.comparison):
        if found.arm not in selection.candidates:
            continue
        arm, icon = literal(found.arm), ":material/warning:"
        if found.quality is not None and found.quality.word == "worse":
            st.warning(f"{arm} answers {literal(found.quality.sentence)}.", icon=icon)
        if found.distribution is not None and found.distribution.differs:
            st.warning(f"{arm} samples otherwise: {literal(found.distribution.sentence)}.", icon=icon)


def _show_gaps(selection: Selection) -> None:
    """Say why figures or intervals are missing."""
    with_ratio = [pair for pair in selection.pairs if pair.ratio is not None]
    label = literal(selection.measure.label)
    if not with_ratio:
        st.info(
            f"{label} cannot be compared: {literal(selection.baseline)} or the candidates have no value. "
            "Choose another baseline or metric.",
            icon=":material/info:",
        )
    elif all(pair.ratio is None or pair.ratio.low is None for pair in with_ratio):
        st.info(
            "One repeat does not show how much runs vary, so there are no intervals or verdicts yet: set repeats = 3 "
            "or more.",
            icon=":material/info:",
        )


def _show_tables(selection: Selection) -> None:
    url_widgets.show_tabs(
        url_params.COMPARE_TAB,
        {
            "Verdicts": lambda: _show_verdicts(selection),
            "Break-even": lambda: _show_crossings(selection),
            "Contexts": lambda: _show_surface(selection),
            "Categories": lambda: _show_matrix(selection),
            "Percentiles": lambda: _show_percentiles(selection),
            "Quality": lambda: _show_quality(selection),
        },
    )


def _show_verdicts(selection: Selection) -> None:
    shown = verdict_tables.verdicts(selection.comparison, _agreements(selection), None)
    chosen = shown[shown["arm"].isin(selection.candidates)] if not shown.empty else shown
    config = verdict_tables.verdict_config(chosen, strict=selection.comparison.strict)
    show_table(chosen, config, "Whether each arm is faster", selection.view, "verdicts")


def _show_crossings(selection: Selection) -> None:
    rows = tables.crossings(figures.evens(selection.comparison, selection.candidates))
    needed = "Break-even needs loads at several concurrencies, one at each."
    show_table(rows, tables.CROSSINGS, "Where each arm pays", selection.view, "crossings", if_empty=needed)


def _show_surface(selection: Selection) -> None:
    found = data.surfaces(selection.job_id, baseline=selection.baseline)
    shown = {arm: found[arm] for arm in selection.candidates if arm in found}
    if not shown:
        st.caption("These runs have no numbers by length of context: they were ingested before there were any.")
        return
    for arm, of_arm in shown.items():
        st.caption(f"**{literal(arm)}**: {surface.sentence(of_arm)}.")
    for sentence in surface.prediction_sentences(shown):
        st.caption(literal(sentence))
    cells = tables.surface_cells(shown)[tables.SURFACE_COLUMNS]
    show_table(cells, tables.SURFACE, "Where each arm pays, by context", selection.view, "contexts")


def _show_matrix(selection: Selection) -> None:
    rows = figures.acceptance_matrix(selection).drop(columns=["figure", "interval"])
    without = "No request of these arms has a category and the rounds that the server reports for it."
    show_table(rows, tables.MATRIX, "Acceptance length by category", selection.view, "categories", if_empty=without)


def _show_percentiles(selection: Selection) -> None:
    rows = tables.percentiles_table(tables.percentiles(data.histograms(data.runs_at(selection.here))))
    title = f"Latency percentiles, {selection.workload}, {selection.load}"
    without = "These runs have no latency histograms."
    show_table(rows, tables.PERCENTILES, title, selection.view, "percentiles", if_empty=without)


def _show_quality(selection: Selection) -> None:
    rows = tables.qualities(data.qualities(selection.comparison), selection.candidates)
    if rows.empty:
        st.caption(
            "Nothing was scored: set the workload's score (exact, contains, number or json), with a dataset whose "
            "rows say what is expected. Sampled answers are compared where a dataset repeats a prompt fifty times."
        )
        return
    show_table(rows, tables.QUALITIES, "Whether answers are worse", selection.view, "qualities")
    st.caption(
        "Scores of the same prompts, candidate minus baseline, over all loads and repeats. Not worse: the interval "
        f"lies above -{percentage(MARGIN)}. Sampled: whether the completions of a prompt come from different "
        "distributions (p < 5 %), and the chance of noticing if a tenth of them did."
    )


def _agreements(selection: Selection) -> list[Agreement] | None:
    """Return the agreements: at once where the outputs are few, else if the reader switches them on; None if not."""
    agreements = published_data.agreements(selection.comparison)
    if agreements is not None:
        return agreements
    outputs = published_data.output_count(selection.job_id)
    label = f"Show beside each verdict whether the outputs are the same ({outputs:,} outputs to read)"
    if not url_widgets.toggle(label, url_params.ALL_OUTPUTS):
        return None
    with st.spinner("Reading the outputs"):
        return published_data.agreements(selection.comparison, without_limit=True)


if __name__ == "__main__":
    show_page()
