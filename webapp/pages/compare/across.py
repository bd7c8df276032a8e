"""Arms of several studies, own or imported, on the Compare page: ratios without verdicts, and what differs."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from lab.metrics.definition import Metric
from warehouse.queries.comparing.across_studies import UNPAIRED, AcrossStudies, Beside
from webapp.pages.compare import figures
from webapp.pages.compare.across_selection import AcrossSelection, baseline_options
from webapp.pages.compare.selection import BY_LABEL
from webapp.shared import published_data, study_picker, url_params, url_widgets
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import Column, columns, of_metric, show_table
from webapp.shared.text import count, literal
from webapp.shared.url_params import Param

_HELP = "Own or imported studies, whose arms stand beside those of this one: without verdicts, with what differs named"
_UNKNOWN = "unknown"
#: Of studies, baseline, metric and workload.
_WIDTHS = (2.2, 1.4, 1.4, 1.0)


def choose_others(job_id: str) -> tuple[str, ...]:
    """Let the reader choose other studies; return their job ids."""
    studies = study_picker.listed_studies()
    labels = study_picker.labels_of(studies if studies.empty else studies[studies["job_id"] != job_id])
    chosen = url_widgets.choose_many(
        url_params.WITH, labels, help_text=_HELP, placeholder="None", on_change=_studies_changed
    )
    return tuple(map(url_params.job_id_of, chosen))


def _studies_changed(param: Param) -> None:
    """Drop chosen runs and a baseline that the new studies do not have, without calling them missing."""
    url_widgets.forget_missing(param)
    url_widgets.study_changed()


def is_chosen() -> bool:
    """Return whether the reader or the link has chosen other studies."""
    key = url_params.WITH.key
    return bool(st.session_state[key] if key in st.session_state else st.query_params.get_all(key))


def show(job_id: str) -> None:
    """Show the choices, the ratios, what differs, and what is left out."""
    selection = _choose(job_id)
    jobs = (selection.job_id, *selection.others)
    runs = pd.concat([published_data.results(job) for job in jobs])
    study_picker.show_caveats(runs, published_data.job(job_id))
    _show_chosen_runs(selection)
    found = selection.found
    st.info(UNPAIRED, icon=":material/balance:")
    if found.pairs:
        drawn = figures.across_figure(selection, colour_mode())
        if drawn is not None:
            show_figures([drawn], colour_mode(), selection.view)
        over = f"{selection.measure.label} over {found.names[found.baseline]}"
        st.subheader(literal(over), anchor=False)
        ratios = pd.DataFrame([_ratio(found, pair, selection.measure) for pair in found.pairs])
        show_table(ratios, _ratio_columns(selection.measure, found), over, selection.view, "across")
        st.subheader("What differs", anchor=False)
        show_table(_differences(found), _DIFFERENCES, "What differs between the studies", selection.view, "differences")
    else:
        st.warning(
            "Nothing is compared: no load, with the same workload as far as it is known, is in two of these studies."
        )
    _show_left_out(found)
    study_picker.follow(published_data.job(job_id))


def _choose(job_id: str) -> AcrossSelection:
    studies, baseline, metric, workload = st.columns(_WIDTHS, vertical_alignment="bottom")
    with studies:
        others = choose_others(job_id)
    if not others:  # the link has unknown ones only, which the page of one study reports
        st.rerun()
    runs = _chosen_runs()
    options = list(baseline_options(job_id, others, runs))
    with baseline:
        base = url_widgets.choose(
            url_params.BASELINE,
            options or [""],
            help_text="The arm, of any of these studies, that arms of the others are compared with",
        )
    with metric:
        measure = url_widgets.choose(url_params.METRIC, list(BY_LABEL))
    with workload:
        help_text = (
            "Compare runs at the same load even if their workload is known to differ; the differences are listed below"
        )
        is_any = url_widgets.toggle("Any workload", url_params.ANY_WORKLOAD, help_text=help_text)
    url_widgets.report_missing(url_params.WITH, url_params.BASELINE, url_params.METRIC)
    return AcrossSelection(job_id, others, base, measure, runs, is_any)


def _chosen_runs() -> tuple[str, ...]:
    """Return the runs that the link names, until the reader drops them or changes the study."""
    key = url_params.RUNS.key
    if key not in st.session_state:
        st.session_state[key] = st.query_params.get_all(key)
    if url_widgets.is_study_changed():
        st.session_state[key] = []
    url_widgets.record(key, st.session_state[key])
    return tuple(st.session_state[key])


def _show_chosen_runs(selection: AcrossSelection) -> None:
    if selection.runs:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"Only the **{count(len(selection.runs), 'chosen run')}**", width="content")
            st.button("All runs of these studies", icon=":material/select_all:", on_click=_drop_runs)


def _drop_runs() -> None:
    st.session_state[url_params.RUNS.key] = []


def _ratio(found: AcrossStudies, pair: Beside, measure: Metric) -> dict[str, object]:
    name, note = found.names[pair.candidate.of], pair.candidate.note
    values = (None if cell.value is None else cell.value * measure.factor for cell in (pair.candidate, pair.baseline))
    value, of_baseline = values
    ratio = pair.ratio
    return {
        "arm": f"{name} ({note})" if note else name,
        "load": pair.load,
        "ratio": None if ratio is None else ratio.value,
        "low": None if ratio is None else ratio.low,
        "high": None if ratio is None else ratio.high,
        "workload": pair.candidate.workload,
        "baseline_workload": pair.baseline.workload,
        "why": pair.why,
        "value": value,
        "baseline_value": of_baseline,
        "basis": pair.basis,
    }


def _ratio_columns(measure: Metric, found: AcrossStudies) -> dict[str, object]:
    """Return the columns of the ratios; what is the same as the baseline's workload is hidden."""
    value = of_metric(measure)
    shown = columns(
        *("load", "workload", "basis"),
        pinned="arm",
        arm=Column("Arm · study", width="medium"),
        ratio=Column(
            "To baseline [95 %, unpaired]",
            "%.2f×",
            "Ratio of the geometric means of both arms' runs. The interval (Welch) holds the scatter within each study "
            "alone, and is not corrected for the number of rows",
            width=170,
        ),
        low={"width": None},
        high={"width": None},
        why=Column("Without interval, or ratio, because", width=215),
        value=value,
        baseline_value=Column(f"Baseline: {value.label}", value.format, "Geometric mean of its runs"),
        baseline_workload=Column("Baseline's workload"),
    )
    if all(pair.candidate.workload == pair.baseline.workload for pair in found.pairs):
        shown["baseline_workload"] = None
    return shown


def _differences(found: AcrossStudies) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "what": difference.what,
            "baseline": _UNKNOWN if difference.baseline is None else difference.baseline,
            "other": _UNKNOWN if difference.other is None else difference.other,
            "word": difference.word,
            "arms": "; ".join(difference.arms),
        }
        for difference in found.differences
    )


_DIFFERENCES = columns(
    pinned="what",
    what=Column("What", width="medium"),
    baseline=Column("Baseline", width=160),
    other=Column("Other study", width=160),
    word=Column("State"),
    arms=Column("Arms", width="large"),
)


def _show_left_out(found: AcrossStudies) -> None:
    if found.left_out:
        title = f"Not compared here ({len(found.left_out)})"
        with st.expander(title, icon=":material/rule:", expanded=not found.pairs):
            st.markdown("\n".join(f"- {literal(sentence)}" for sentence in found.left_out))
