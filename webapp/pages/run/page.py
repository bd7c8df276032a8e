"""Run: everything behind one run's numbers."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from lab.metrics.catalogue import BY_NAME
from webapp.pages.run import details, figures
from webapp.shared import published_data, study_picker, url_params, url_widgets
from webapp.shared.cards import Card, show_cards
from webapp.shared.errors import show_user_errors
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import View


def show_page() -> None:
    st.title("Run")
    study_picker.show_empty_state()

    with show_user_errors():
        study_column, run_column = st.columns([1, 1.4])
        with study_column:
            job_id = study_picker.choose_study()
        with run_column:
            run_id = url_params.job_id_of(url_widgets.choose(url_params.RUN, labels(published_data.results(job_id))))
        url_widgets.report_missing(url_params.JOB, url_params.RUN)
        run = published_data.run(run_id).iloc[0]

    show_head(run)
    show_summary(run)
    view = View("run", {"job": (job_id,), "run": (run_id,)})
    show_charts(view)
    details.show(run, view)


def labels(runs: pd.DataFrame) -> list[str]:
    """The label of each run in lists and links: what was run, and its id."""
    return [url_params.job_label(_what(run), run["run_id"]) for _, run in runs.iterrows()]


def _what(run: Any) -> str:
    """Arm, workload, load, repeat and attempt, as far as an imported file has them."""
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
    if run["origin"] == "imported":
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
    """Cards of a completed run; a failed one has none."""
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
    found = figures.figures(view.parameters, mode)
    show_figures(found, mode, view)
    if all(figure.key != "seconds" for figure in found):
        st.caption("The measured window was too short for figures by second.")


def _shown(run: pd.Series, name: str) -> str:
    return BY_NAME[name].format_with_unit(run[name])


if __name__ == "__main__":
    show_page()
