"""The drawer of the Explore page: the run behind a clicked point, without leaving the page."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from lab.metrics.catalogue import BY_NAME
from webapp.pages.explore import data
from webapp.shared import published_data, url_params
from webapp.shared.text import literal
from webapp.shared.url_params import page_file

_VERDICT_ON = "output_tok_per_s"
_NUMBERS = ("output_tok_per_s", "ttft_p50_ms", "tpot_p50_ms", "e2e_p50_ms", "acceptance_length")
_P99 = {"ttft_p50_ms": "ttft_p99_ms", "tpot_p50_ms": "tpot_p99_ms", "e2e_p50_ms": "e2e_p99_ms"}
#: The words for a run's setting, by column.
_SETTING = {
    "dataset": "dataset {}",
    "category": "category {}",
    "load": "{}",
    "k": "k = {}",
    "engine": "{}",
    "hardware": "{}",
    "target": "target {}",
}
_ICONS = {"invalid": ":red[:material/gpp_bad:]", "warning": ":orange[:material/warning:]"}


@st.dialog("Run", width="large", icon=":material/timeline:")
def show(run: pd.Series) -> None:
    """Show the drawer of a run, a row of `slices.runs`."""
    known = [said.format(run[name]) for name, said in _SETTING.items() if run[name] not in ("unknown", "none")]
    repeat = [] if pd.isna(run["repeat"]) else [f"repeat {run['repeat'] + 1:.0f}"]
    st.markdown(f"**{literal(run['arm'])}** :gray[{literal(' · '.join([*known, *repeat]))}]")
    if run["origin"] == "published":
        st.caption(f"Published by {literal(run['source'])}; only these figures are available.")
        query = {url_params.SOURCE.key: run["source"]}
        st.page_link(
            page_file("external_results"), label="Open the source", icon=":material/groups:", query_params=query
        )
        return
    _show_numbers(published_data.run(run["run_id"]).iloc[0])
    judged = data.judged(run["job_id"], _VERDICT_ON).get((run["arm"], run["workload_label"], run["load"]))
    if judged is not None:
        st.markdown(f"Output throughput of this cell vs. the baseline: **{literal(judged.words)}**")
    _show_findings(run["run_id"])
    query = {url_params.JOB.key: run["job_id"], url_params.RUN.key: run["run_id"]}
    st.page_link(page_file("run"), label="Open this run", icon=":material/timeline:", query_params=query)


def _show_numbers(metrics: pd.Series) -> None:
    known = [BY_NAME[name] for name in _NUMBERS if not pd.isna(metrics[name])]
    with st.grid(max(1, len(known)), gap="small", min_column_width=150):
        for metric in known:
            with st.container(gap=None):
                st.metric(metric.short_label, metric.format_with_unit(metrics[metric.name]))
                if (p99 := _P99.get(metric.name)) is not None:
                    st.caption(f"p99 {BY_NAME[p99].format_with_unit(metrics[p99])}")


def _show_findings(run_id: str) -> None:
    findings = published_data.run_findings(run_id)
    if findings.empty:
        st.caption("The checks found nothing in this run.")
    for _, finding in findings.iterrows():
        icon = _ICONS.get(finding["severity"], ":gray[:material/info:]")
        st.markdown(f"{icon} {literal(finding['sentence'])}")
