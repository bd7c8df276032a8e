"""The parts of the Compare page: what is compared, a summary per arm, and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urljoin

import streamlit as st

from jobs.forecast import repeat_seconds
from lab.comparison import surface
from lab.comparison.agreement import Agreement
from lab.comparison.verdict import READING_WORDS
from lab.quality.non_inferiority import MARGIN
from webapp.pages.compare import data as compare_data
from webapp.pages.compare import figures, report, selection, tables
from webapp.pages.compare.selection import Choice
from webapp.shared import published_data, study_picker, url_params, url_widgets
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import show_table
from webapp.shared.text import count, literal
from webapp.shared.url_params import View
from webapp.shared.verdicts import arm_cards, capacities
from webapp.shared.verdicts import tables as verdict_tables

Parameters = Mapping[str, Sequence[str]]
_READING_HELP = (
    "How sure the verdicts of this study are together: of all calls at most 5 % are false on average, or, with 95 % "
    "confidence, none of them is, for a single claim in public. The intervals are corrected as the verdicts are."
)


#: In a row, and the pixels that each needs.
_CHOICES, _CHOICE_WIDTH = 5, 150


def choose() -> dict[str, Sequence[str]]:
    """Choose study, baseline, candidates and metric. Raises UserError where nothing can be compared."""
    job_id = study_picker.chosen_study()
    with st.grid(_CHOICES, gap="small", min_column_width=_CHOICE_WIDTH) as grid:
        candidates, baseline, metric, readings, rows = (grid.cell() for _ in range(_CHOICES))
    with baseline:
        base = url_widgets.choose(
            url_params.BASELINE, selection.baselines(job_id), help_text="The arm that the others are compared with"
        )
    if not capacities.has_ordinary_runs(job_id):
        capacities.show(job_id, View("compare", {url_params.JOB.key: (job_id,)}))
        study_picker.follow(study_picker.job_state(job_id))
        st.stop()
    with metric:
        measure = url_widgets.choose(url_params.METRIC, list(selection.BY_LABEL))
    with readings:
        reading = url_widgets.choose(url_params.READING, list(selection.READINGS), help_text=_READING_HELP)
    strict = selection.READINGS[reading]
    comparison = published_data.compared(job_id, selection.BY_LABEL[measure].name, base, strict=strict)
    with candidates:
        chosen = url_widgets.choose_many(url_params.CANDIDATES, selection.candidates(comparison), placeholder="All")
    with rows:
        heat_rows = url_widgets.choose(url_params.HEAT_ROWS, selection.HEAT_ROWS)
    keys = (url_params.JOB, url_params.BASELINE, url_params.METRIC, url_params.HEAT_ROWS, url_params.READING)
    url_widgets.report_missing(*keys[1:], url_params.CANDIDATES)
    values = ((job_id,), (base,), (measure,), (heat_rows,), (reading,))
    parameters: dict[str, Sequence[str]] = dict(zip((param.key for param in keys), values, strict=True))
    return parameters | ({url_params.CANDIDATES.key: chosen} if chosen else {})


def show_charts(keys: Sequence[str], parameters: Parameters, view: View) -> None:
    """Show the figures one after the other: the first can be seen while the others are computed."""
    mode = colour_mode()
    for key in keys:
        if (figure := figures.figure(key, parameters, mode)) is not None:
            show_figures([figure], mode, view)


def choose_cell(choice: Choice) -> dict[str, Sequence[str]]:
    """Choose one workload and one load."""
    workloads = selection.workloads(choice.comparison, choice.candidates)
    workload_column, load_column, _ = st.columns([2, 1.2, 2])
    with workload_column:
        workload = url_widgets.choose(url_params.AT_WORKLOAD, workloads)
    with load_column:
        load = url_widgets.choose(url_params.AT_LOAD, selection.loads(choice.comparison, choice.candidates, workload))
    url_widgets.report_missing(url_params.AT_WORKLOAD, url_params.AT_LOAD)
    return {url_params.AT_WORKLOAD.key: (workload,), url_params.AT_LOAD.key: (load,)}


def show_summary(choice: Choice) -> None:
    """A card per candidate: the geometric mean over its cells, the interval, and how many cells are faster."""
    more = arm_cards.show(choice.comparison, choice.candidates)
    besides = f" {count(more, 'more arm')} in the tables below." if more > 0 else ""
    st.caption(
        f"{literal(choice.measure.label)} over {literal(choice.comparison.baseline)}, geometric mean and 95 % "
        f"interval; {READING_WORDS[choice.comparison.strict]}.{besides}"
    )


def show_report_button(choice: Choice) -> None:
    """A button that downloads the report of the whole comparison, whichever candidates are chosen."""
    job_id, comparison, page = choice.job_id, choice.comparison, urljoin(st.context.url or "", ".")

    def make() -> bytes:
        repeat_s = repeat_seconds(published_data.settings(), published_data.engine(), job_id)
        made = report.Made(published_data.arms(job_id), page, published_data.published_at(), repeat_s)
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


def show_caveats(choice: Choice) -> None:
    job = study_picker.job_state(choice.job_id)
    study_picker.show_caveats(published_data.results(choice.job_id), job, "the tab Checks of the Results page")


def show_worse(choice: Choice) -> None:
    """Say which arms answer worse than the baseline, before anybody reads how fast they are."""
    for found in compare_data.qualities(choice.job_id, choice.comparison):
        if found.arm not in choice.candidates:
            continue
        if found.quality is not None and found.quality.word == "worse":
            sentence = f"{literal(found.arm)} answers {literal(found.quality.sentence)}."
            st.warning(sentence, icon=":material/warning:")
        if found.distribution is not None and found.distribution.differs:
            st.warning(
                f"{literal(found.arm)} samples otherwise: {literal(found.distribution.sentence)}.",
                icon=":material/warning:",
            )


def show_gaps(choice: Choice) -> None:
    """Say why figures or intervals are missing."""
    with_ratio = [pair for pair in choice.pairs if pair.ratio is not None]
    label = literal(choice.measure.label)
    if not with_ratio:
        st.info(
            f"{label} cannot be compared: {literal(choice.comparison.baseline)} or the candidates have no value. "
            "Choose another baseline or metric.",
            icon=":material/info:",
        )
    elif all(pair.ratio is None or pair.ratio.low is None for pair in with_ratio):
        st.info(
            "One repeat does not show how much runs vary, so there are no intervals or verdicts yet: set repeats = 3 "
            "or more.",
            icon=":material/info:",
        )


def show_tables(choice: Choice, view: View) -> None:
    url_widgets.show_tabs(
        url_params.COMPARE_TAB,
        {
            "Verdicts": lambda: _show_verdicts(choice, view),
            "Break-even": lambda: _show_crossings(choice, view),
            "Contexts": lambda: _show_surface(choice, view),
            "Categories": lambda: _show_matrix(choice, view),
            "Percentiles": lambda: _show_percentiles(choice, view),
            "Quality": lambda: _show_quality(choice, view),
        },
    )


def _show_verdicts(choice: Choice, view: View) -> None:
    shown = verdict_tables.verdicts(choice.comparison, _agreements(choice), None)
    chosen = shown[shown["arm"].isin(choice.candidates)] if not shown.empty else shown
    config = verdict_tables.verdict_config(chosen, strict=choice.comparison.strict)
    show_table(chosen, config, "Whether each arm is faster", view, "verdicts")


def _show_crossings(choice: Choice, view: View) -> None:
    rows = tables.crossings(figures.evens(choice))
    if rows.empty:
        st.caption("Break-even needs loads at several concurrencies, one at each.")
    else:
        shown = tables.crossings_table(rows)
        show_table(shown, tables.CROSSINGS, "Where each arm pays", view, "crossings")


def _show_surface(choice: Choice, view: View) -> None:
    found = compare_data.surfaces(choice.job_id, choice.comparison.baseline)
    shown = {arm: found[arm] for arm in choice.candidates if arm in found}
    if not shown:
        st.caption("These runs have no numbers by length of context: they were ingested before there were any.")
        return
    for arm, of_arm in shown.items():
        st.caption(f"**{literal(arm)}**: {surface.sentence(of_arm)}.")
    for sentence in surface.prediction_sentences(shown):
        st.caption(literal(sentence))
    cells = tables.surface_table(tables.surface_cells(shown))
    show_table(cells, tables.SURFACE, "Where each arm pays, by context", view, "contexts")


def _show_matrix(choice: Choice, view: View) -> None:
    rows = tables.matrix(compare_data.matrix(choice.job_id))
    if rows.empty:
        st.caption("No request of this study has a category and the rounds that the server reports for it.")
    else:
        shown = rows.drop(columns=["figure", "interval"])
        show_table(shown, tables.MATRIX, "Acceptance length by category", view, "categories")


def _show_percentiles(choice: Choice, view: View) -> None:
    rows = tables.percentiles(compare_data.histograms(compare_data.runs_at(choice.here)))
    if rows.empty:
        st.caption("These runs have no latency histograms.")
    else:
        title = f"Latency percentiles, {choice.workload}, {choice.load}"
        show_table(tables.percentiles_table(rows), tables.PERCENTILES, title, view, "percentiles")


def _show_quality(choice: Choice, view: View) -> None:
    rows = tables.qualities(compare_data.qualities(choice.job_id, choice.comparison), choice.candidates)
    if rows.empty:
        st.caption(
            "Nothing was scored: set score of the workload (exact, contains, number or json), with a dataset whose "
            "rows say what is expected. Sampled answers are compared where a dataset repeats a prompt fifty times."
        )
        return
    show_table(rows, tables.QUALITIES, "Whether answers are worse", view, "qualities")
    st.caption(
        "Scores of the same prompts, candidate minus baseline, over all loads and repeats. Not worse: the interval "
        f"lies above -{MARGIN:.0%}. Sampled: whether completions of one prompt come from another distribution "
        "(p < 5 %), and the chance to notice if a tenth of them did."
    )


def _agreements(choice: Choice) -> list[Agreement] | None:
    """Agreements at once where the outputs are few, else if the reader switches them on; None if not."""
    agreements = published_data.agreements(choice.job_id, choice.measure.name, choice.comparison)
    if agreements is not None:
        return agreements
    outputs = published_data.output_count(choice.job_id)
    url_widgets.seed(url_params.ALL_OUTPUTS, lambda text: text == "true", default=False)
    wanted = st.toggle(
        f"Show beside each verdict whether the outputs are the same ({outputs:,} outputs to read)",
        key=url_params.ALL_OUTPUTS,
    )
    url_widgets.record(url_params.ALL_OUTPUTS, "true" if wanted else None)
    if not wanted:
        return None
    with st.spinner("Reading the outputs"):
        return published_data.agreements(choice.job_id, choice.measure.name, choice.comparison, without_limit=True)
