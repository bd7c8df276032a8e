"""The lower part of the Run page: checks, requests, all metrics, how the run was started, its log and its bundle."""

from __future__ import annotations

import io
import json
import zipfile
from numbers import Real
from pathlib import Path

import pandas as pd
import streamlit as st

from lab.errors import BundleError
from lab.metrics.catalogue import METRICS
from warehouse.bundles.run_bundle import bundle_folder, read_log
from webapp.shared import downloads, published_data, url_params, url_widgets
from webapp.shared.errors import show_user_errors
from webapp.shared.tables import show_table
from webapp.shared.text import count, literal, number
from webapp.shared.url_params import View

_MOST_LOG_LETTERS = 200_000
_LOG_HEIGHT = 460
_SHOWN = [
    *("index", "category", "sent_s", "ttft_ms", "tpot_ms", "e2e_ms", "prompt_tokens", "completion_tokens"),
    *("spec_drafts", "spec_accepted_tokens", "finish_reason", "error", "prompt_id"),
]
#: Column of `runs` -> title.
_STARTED = {
    "command_json": "Command",
    "effective_config_json": "Effective configuration, from the engine's log",
    "environment_json": "Environment variables",
    "arm_json": "The arm, from the study",
    "settings_json": "Settings of the worker",
    "counters_before_json": "The server's counters before the window",
    "counters_after_json": "The server's counters after the window",
}


def show(run: pd.Series, view: View) -> None:
    def show_requests() -> None:
        requests = published_data.requests_of(run["run_id"])
        _show_requests(requests)
        downloads.show_table_buttons(requests, f"Requests of {run['run_id']}", view, "requests")

    def show_log() -> None:
        with show_user_errors():
            _show_log(run)

    url_widgets.show_tabs(
        url_params.RUN_TAB,
        {
            "Checks": lambda: _show_checks(run, published_data.run_findings(run["run_id"])),
            "Requests": show_requests,
            "Numbers": lambda: _show_numbers(run, view),
            "How it was run": lambda: _show_how(run),
            "Engine log": show_log,
        },
    )
    _show_download(run)


def _show_checks(run: pd.Series, findings: pd.DataFrame) -> None:
    if findings.empty:
        st.caption("The checks found nothing in this run.")
    for _, found in findings.iterrows():
        icon = {"invalid": ":red[:material/gpp_bad:]", "warning": ":orange[:material/warning:]"}
        st.markdown(
            f"{icon.get(found['severity'], ':material/info:')} **{literal(found['check_name'])}** "
            f"{literal(found['sentence'])}  \n:gray[{literal(found['advice'])}]"
        )
    unjudged = run["unjudged_checks"]
    if unjudged is not None and len(unjudged):
        st.caption(f"Skipped, because this run does not record what they need: {literal(', '.join(unjudged))}.")


def _show_requests(requests: pd.DataFrame) -> None:
    """The requests; a selected row shows its prompt and output."""
    st.caption("Select a row to read its prompt and output.")
    chosen = st.dataframe(
        requests[[name for name in _SHOWN if requests[name].notna().any()]],
        hide_index=True,
        on_select="rerun",
        selection_mode="single-row",
        key="run-requests",
    )
    for place in chosen.selection.rows:
        request = requests.iloc[place]
        prompt, output = st.columns(2)
        with prompt:
            st.caption(f"Prompt of request {request['index']}")
            st.code(request["prompt"] or "", language=None, wrap_lines=True)
        with output:
            chunks = "" if request["chunk_s"] is None else f", in {count(len(request['chunk_s']), 'chunk')}"
            st.caption(f"Output{chunks}")
            st.code(request["output_text"] or "", language=None, wrap_lines=True)


def _show_numbers(run: pd.Series, view: View) -> None:
    """All metrics with their formulas; a dash where unknown."""
    rows = [
        {"name": metric.name, "value": _figure(run[metric.name]), "unit": metric.unit, "formula": metric.formula}
        for metric in METRICS
    ]
    columns = {"name": "Number", "value": "Value", "unit": "Unit"}
    config = {name: st.column_config.TextColumn(title) for name, title in columns.items()}
    config["formula"] = st.column_config.TextColumn("Formula", width="large")
    show_table(pd.DataFrame(rows), config, f"Numbers of {run['run_id']}", view, "numbers")


def _figure(value: object) -> str:
    if value is None or value is pd.NaT or value is pd.NA:
        return "–"
    if isinstance(value, Real):
        whole = float(value).is_integer()
        return f"{float(value):,.0f}" if whole else number(float(value), 5)
    return ", ".join(number(float(each), 3) for each in value)  # type: ignore[attr-defined]


def _show_how(run: pd.Series) -> None:
    for column, title in _STARTED.items():
        text = run[column]
        if not isinstance(text, str) or text in ("{}", "[]"):
            continue
        st.markdown(f"**{title}**")
        found = json.loads(text)
        if column == "command_json":
            st.code(" ".join(found), language="bash", wrap_lines=True)
        else:
            st.json(found, expanded=column != "effective_config_json")


def _folder(run: pd.Series) -> Path:
    return bundle_folder(published_data.settings().bundles, str(run["job_id"]), str(run["run_id"]))


def _show_log(run: pd.Series) -> None:
    if run["origin"] == "imported":
        st.caption("This run was imported; its file has no engine log.")
        return
    try:
        log = read_log(_folder(run))
    except BundleError:
        st.caption("The bundle of this run, and with it the log, is not on this machine (any more).")
        return
    if log is None:
        st.caption("There is no engine log: the engine wrote none, or the run used a server that was already running.")
        return
    text = log.decode("utf-8", "replace")
    if len(text) > _MOST_LOG_LETTERS:
        st.caption("Only the end of the log is shown; the bundle has all of it.")
    with st.container(height=_LOG_HEIGHT, border=False, autoscroll=True):
        st.code(text[-_MOST_LOG_LETTERS:], language=None, wrap_lines=True)


def _show_download(run: pd.Series) -> None:
    folder = _folder(run)
    if folder.exists():
        st.download_button(
            "Download the bundle",
            lambda: _zipped(folder),
            f"{run['run_id']}.zip",
            mime="application/zip",
            icon=":material/folder_zip:",
            help="Everything that was recorded: run.json, requests.parquet, telemetry.parquet and engine.log, or the "
            "imported file",
            on_click="ignore",
        )


def _zipped(folder: Path) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            archive.write(file, f"{folder.name}/{file.relative_to(folder)}")
    return sink.getvalue()
