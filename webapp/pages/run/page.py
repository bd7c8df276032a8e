"""Run: everything behind one run's numbers."""

from __future__ import annotations

import io
import json
import zipfile
from numbers import Real
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from access.shared_links import Kind
from lab.metrics.catalogue import BY_NAME, METRICS
from lab.metrics.number_format import number
from warehouse.bundles.engine_log import read_tail
from warehouse.bundles.run_bundle import LOG_FILE
from warehouse.bundles.store import local_bundle
from webapp.pages.run import figures
from webapp.shared import curating, dialogs, downloads, published_data, study_picker, url_params, url_widgets
from webapp.shared.cards import Card, show_cards
from webapp.shared.errors import show_user_errors
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import Column, columns, show_rows, show_table
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import View

_MOST_LOG_BYTES = 200_000
_LOG_HEIGHT = 460
#: The columns of the table of requests that have any value.
_SHOWN = columns(
    "category",
    index=Column("Request", "%d", "In the order of sending, from 0"),
    prompt_begins=Column("Prompt begins", width="medium"),
    sent_s=Column("Sent (s)", "%.2f", "Since the window began"),
    ttft_ms=Column("TTFT (ms)", "%.1f"),
    tpot_ms=Column("TPOT (ms)", "%.2f"),
    e2e_ms=Column("E2E (ms)", "%.0f"),
    prompt_tokens=Column("Prompt tokens", "%d"),
    completion_tokens=Column("Output tokens", "%d"),
    spec_drafts=Column("Rounds", "%d", "Verification rounds of speculative decoding"),
    spec_accepted_tokens=Column("Accepted tokens", "%d", "Drafted tokens that the target accepted"),
    finish_reason=Column("Finish reason"),
    error={},
    prompt_id=Column("Prompt id", help="The digest of the prompt: the same in every run that sent it"),
)
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


def show_page() -> None:
    st.title("Run", anchor=False)
    study_picker.show_empty_state()

    with show_user_errors():
        job_id = study_picker.chosen_study()
        run_id = url_params.job_id_of(url_widgets.choose(url_params.RUN, labels(published_data.results(job_id))))
        url_widgets.report_missing(url_params.RUN)
        run = published_data.run(run_id).iloc[0]

    show_head(run)
    show_summary(run)
    view = View("run", {"job": (job_id,), "run": (run_id,)})
    dialogs.show_share_menu(Kind.RUN, run_id, _what(run), view, owner=curating.owner_of(job_id))
    show_charts(view)
    show(run, view)


def labels(runs: pd.DataFrame) -> list[str]:
    """Return the label of each run in lists and links: what was run, and its id."""
    return [url_params.job_label(_what(run), run["run_id"]) for _, run in runs.iterrows()]


def _what(run: Any) -> str:
    """Name a run by arm, workload, load, repeat and attempt, as far as an imported file has them."""
    workload = run["workload"] if isinstance(run["workload"], str) else run["category"]
    where = [part for part in (run["arm"], workload, run["pattern"]) if isinstance(part, str)]
    where += [] if pd.isna(run["repeat"]) else [f"repeat {run['repeat'] + 1:.0f}"]
    if not pd.isna(run["attempt"]) and run["attempt"]:
        where.append(f"attempt {run['attempt'] + 1:.0f}")
    return ", ".join(where)


def show_head(run: pd.Series) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{literal(_what(run))}**", width="content")
        _show_badge(run)
        if pd.notna(run["is_baseline"]) and run["is_baseline"]:
            st.badge("baseline", color="gray")
    version = f" {run['engine_version']}" if isinstance(run["engine_version"], str) else ""
    target, engine, hardware = (
        run[name] if isinstance(run[name], str) else f"unknown {name}" for name in ("target", "engine", "hardware")
    )
    began = None if pd.isna(run["started_at"]) else run["started_at"].to_pydatetime()
    st.caption(
        f"{literal(target)} by {literal(engine + version)} on {literal(hardware)} · "
        f"began {moment(began)} · {literal(run['run_id'])}"
    )
    if run["origin"] == "imported" and not isinstance(run["source_sha256"], str):
        st.caption(
            ":material/upload_file: Not measured here, but imported from a folder that another Drafthouse exported: "
            f"{literal(run['labels_json'])}"
        )
    elif run["origin"] == "imported":
        version = f" {run['tool_version']}" if isinstance(run["tool_version"], str) else ""
        st.caption(
            f":material/upload_file: Imported from a file of {literal(run['tool'] + version)} with the SHA-256 "
            f"{literal(run['source_sha256'])}; labels: {literal(run['labels_json'])}"
        )
    if isinstance(run["error"], str):
        st.error("The run failed with this error:", icon=":material/error:")
        st.code(run["error"], language=None, wrap_lines=True)


def _show_badge(run: pd.Series) -> None:
    if run["status"] != "completed":
        st.badge("failed", icon=":material/error:", color="red")
    elif run["is_valid"] is None or pd.isna(run["is_valid"]):
        st.badge("not checked", icon=":material/help:", color="gray")
    elif run["is_valid"]:
        st.badge("valid", icon=":material/check_circle:", color="green")
    else:
        st.badge("invalid", icon=":material/gpp_bad:", color="red")


def show_summary(run: pd.Series) -> None:
    """Show the cards of a completed run; a failed run has none."""
    if run["status"] != "completed":
        return
    done = run["requests_completed"]
    failed = "unknown how many" if pd.isna(run["requests_failed"]) else count(int(run["requests_failed"]), "request")
    cards = [
        Card(BY_NAME["output_tok_per_s"].label, _shown(run, "output_tok_per_s"), f"over {_shown(run, 'duration_s')}"),
        *(
            Card(BY_NAME[p50].short_label, _shown(run, p50), f"p99 {_shown(run, p99)}")
            for p50, p99 in (("ttft_p50_ms", "ttft_p99_ms"), ("tpot_p50_ms", "tpot_p99_ms"))
        ),
        Card("Requests", "–" if pd.isna(done) else f"{done:,.0f}", f"{failed} failed"),
    ]
    if not pd.isna(run["acceptance_length"]):
        length = BY_NAME["acceptance_length"]
        note = f"{_shown(run, 'acceptance_rate')} of drafted tokens accepted"
        cards.insert(3, Card(length.label, length.format(run[length.name]), note))
    show_cards(cards)


def show_charts(view: View) -> None:
    mode = colour_mode()
    drawn = figures.figures(view.parameters, mode)
    show_figures(drawn, mode, view)
    if drawn and all(figure.key != "seconds" for figure in drawn):  # a failed run without requests has no window
        st.caption("The measured window was too short for figures by second.")


def _shown(run: pd.Series, name: str) -> str:
    return BY_NAME[name].format_with_unit(run[name])


def show(run: pd.Series, view: View) -> None:
    def show_requests() -> None:
        requests = published_data.requests_of(run["run_id"])
        _show_requests(run["run_id"], requests)
        title = f"Requests of {run['run_id']}"
        downloads.show_table_buttons(lambda: published_data.whole_requests(run["run_id"]), title, view, "requests")

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
    for _, finding in findings.iterrows():
        icon = {"invalid": ":red[:material/gpp_bad:]", "warning": ":orange[:material/warning:]"}
        st.markdown(
            f"{icon.get(finding['severity'], ':material/info:')} **{literal(finding['check_name'])}** "
            f"{literal(finding['sentence'])}  \n:gray[{literal(finding['advice'])}]"
        )
    unjudged = run["unjudged_checks"]
    if unjudged is not None and len(unjudged):
        st.caption(f"Skipped, because this run does not record what they need: {literal(', '.join(unjudged))}.")


def _show_requests(run_id: str, requests: pd.DataFrame) -> None:
    """Show the requests; a selected row shows its prompt and output."""
    st.caption("Select a row to read its prompt and output.")
    rows = requests[[name for name in _SHOWN if requests[name].notna().any()]]
    key = f"run-requests-{run_id}"  # another run forgets what was chosen
    options = {"key": key, "on_select": "rerun", "selection_mode": "single-row"}
    chosen = show_rows(rows, _SHOWN, f"Requests of {run_id}", **options)
    for row in chosen.selection.rows:
        index = int(requests["index"].iloc[row])
        texts = published_data.request_texts(run_id, index)
        if texts.empty:  # the run was removed since the table was read
            st.caption(f"Request {index} is no longer here: its run was removed.")
            continue
        request = texts.iloc[0]
        prompt, output = st.columns(2)
        with prompt:
            st.caption(f"Prompt of request {index}")
            st.code(request["prompt"] or "", language=None, wrap_lines=True)
        with output:
            chunks = "" if pd.isna(request["chunks"]) else f", in {count(int(request['chunks']), 'chunk')}"
            st.caption(f"Output{chunks}")
            st.code(request["output_text"] or "", language=None, wrap_lines=True)


def _show_numbers(run: pd.Series, view: View) -> None:
    """Show all metrics with their formulas; a dash where unknown."""
    rows = [
        {"name": metric.name, "value": _figure(run[metric.name]), "unit": metric.unit, "formula": metric.formula}
        for metric in METRICS
    ]
    config = columns("unit", name=Column("Number"), value=Column("Value"), formula=Column("Formula", width="large"))
    show_table(pd.DataFrame(rows), config, f"Numbers of {run['run_id']}", view, "numbers")


def _figure(value: object) -> str:
    if value is None or value is pd.NaT or value is pd.NA:
        return "–"
    if isinstance(value, Real):
        whole = float(value).is_integer()
        return f"{float(value):,.0f}" if whole else number(float(value), 5)
    return ", ".join(number(float(part), 3) for part in value)  # type: ignore[attr-defined]


def _show_how(run: pd.Series) -> None:
    for column, title in _STARTED.items():
        text = run[column]
        if not isinstance(text, str) or text in ("{}", "[]"):
            continue
        st.markdown(f"**{title}**")
        recorded = json.loads(text)
        if column == "command_json":
            st.code(" ".join(recorded), language=None, wrap_lines=True)
        else:
            st.json(recorded, expanded=column != "effective_config_json")


def _folder(run: pd.Series) -> Path:
    return local_bundle(published_data.settings(), str(run["job_id"]), str(run["run_id"]))


def _show_log(run: pd.Series) -> None:
    if run["origin"] == "imported" and isinstance(run["source_sha256"], str):
        st.caption("This run was imported; its file has no engine log.")
        return
    try:
        log = read_tail(_folder(run) / LOG_FILE, _MOST_LOG_BYTES)
    except OSError:
        st.caption("The bundle of this run, and with it the log, is not on this machine (any more).")
        return
    if not log:
        st.caption("There is no engine log: the engine wrote none, or the run used a server that was already running.")
        return
    if len(log) == _MOST_LOG_BYTES:
        st.caption("Only the end of the log is shown; the bundle has more of it.")
    with st.container(height=_LOG_HEIGHT, border=False, autoscroll=True):
        st.code(log.decode("utf-8", "replace"), language=None, wrap_lines=True)


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


if __name__ == "__main__":
    show_page()
