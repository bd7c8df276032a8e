"""External results: result files of other tools, and published figures beside those measured here."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from access.web import visitor
from interchange.files import ForeignFile
from interchange.store import import_read
from lab.errors import UserError
from lab.roles import Change
from webapp.pages.external_results import data
from webapp.shared import published_data, undo_banner, uploads, url_params, url_widgets
from webapp.shared.errors import callback, show_user_errors
from webapp.shared.tables import Column, columns, show_table
from webapp.shared.text import count, literal
from webapp.shared.url_params import View, page_file

_MAX_MIB = 128
_UPLOADER = "import-files"
#: Key in the session's state: whether the last import succeeded, and a sentence.
_OUTCOME = "import-outcome"
#: Whose last change `webapp.shared.undo_banner` shows.
UNDO = "imports"
#: Label -> its title, an example and what it does.
_LABELS = {
    "study": ("Study", "our baseline", "Runs of one study are compared with each other"),
    "arm": ("Arm", "draft k=3", "What is compared: a draft model, a method, or none"),
    "hardware": ("Hardware", "H200", "Used to look up prices"),
    "target": ("Target", "Qwen3-32B", "The model that was served"),
    "method": ("Method", "eagle3", "Of speculation: none, draft_model, eagle3, ngram, ..."),
    "dataset": ("Dataset", "ShareGPT", "Where the prompts are from"),
}
_COLUMNS = columns(
    *("target", "hardware", "method", "draft_model", "engine", "engine_version", "dataset", "load", "unit"),
    pinned="metric",
    metric=Column("Metric", help="As the source names it"),
    printed=Column("Printed", help="The digits as printed"),
    scale=Column("Scale", help="Absolute, or relative to the source's own baseline"),
    ratio_to_baseline=Column("Ratio to its baseline", "%.2f×"),
    num_speculative_tokens=Column("Drafted tokens", "%d"),
    access_pattern=Column("Access pattern"),
    study={"label": "Experiment"},
    price_usd_per_hour=Column("Price (USD/h)", "%.2f"),
    note=Column("Note", width="large"),
    published=Column("Published", "%.4g"),
    here=Column("Measured here", "%.4g"),
    ratio=Column("Here / published", "%.2f×"),
)


def show_page() -> None:
    st.title("External results", anchor=False)
    with show_user_errors():
        if visitor.allowed_any(Change.IMPORT):
            show_upload()
        show_imported()
        show_published()


def show_upload() -> None:
    """Draw the upload form, and show the outcome of the last import."""
    with st.expander("Import result files of other tools", icon=":material/upload_file:", expanded=True):
        uploaded = uploads.choose_files(
            "Files",
            ["json", "jsonl", "csv", "yaml", "yml", "txt"],
            _UPLOADER,
            _MAX_MIB,
            multiple=True,
            help_text="Results of vllm bench, GuideLLM, AIPerf, SGLang, genai-bench, inference-perf, llm-d, "
            "llama-bench, llmperf, MLPerf, InferenceX and others. Upload all files of a run together.",
        )
        labels = choose_labels()
        if st.button("Import", icon=":material/upload_file:", disabled=not uploaded) and uploaded:
            with st.spinner(f"Importing {count(len(uploaded), 'file')} ..."):
                outcome = import_uploaded([(file.name, file.getvalue()) for file in uploaded], labels)
            st.session_state[_OUTCOME] = outcome
            uploads.forget(_UPLOADER)
            st.rerun()
        st.caption(
            f"Files are refused above {_MAX_MIB} MiB. To import larger ones, folders or exports of another Drafthouse, "
            "run `drafthouse import PATH` on this host."
        )
        if outcome := st.session_state.pop(_OUTCOME, None):
            succeeded, sentence, jobs = outcome
            (st.success if succeeded else st.error)(sentence)
            for job in jobs:
                _show_results_link(labels.get("study", job), job)


def import_uploaded(files: list[tuple[str, bytes]], labels: Mapping[str, str]) -> tuple[bool, str, tuple[str, ...]]:
    """Import the files; return whether that succeeded, a sentence, and the jobs with new runs."""
    try:
        read = [ForeignFile(name, content) for name, content in files]
        imported = import_read(published_data.settings(), read, labels=labels, actor=visitor.actor())
    except UserError as error:
        return False, literal(error), ()
    new, earlier = len(imported.new_run_ids), len(imported.runs) - len(imported.new_run_ids)
    jobs, rest = literal(", ".join(imported.jobs)), f" ({earlier} more were imported before)" if earlier else ""
    lacking = "".join(f" {literal(sentence)}." for sentence in imported.refused)
    if not new:
        again = f" To change their labels, remove {jobs} below and import the files again." if labels else ""
        again += lacking
        before = f"Nothing was imported: {count(earlier, 'run')} in the files, all of them imported before."
        return True, f"{before}{again}", ()
    return True, f"Imported {count(new, 'run')}{rest}. Results appear within a few seconds.{lacking}", imported.jobs


def choose_labels() -> dict[str, str]:
    """Draw inputs for what the files do not record about their runs; return it by label."""
    st.caption("What the files do not record, for all runs in them:")
    with st.grid(len(_LABELS) // 2, gap="small", min_column_width=150):
        given = {
            name: st.text_input(title, key=f"import-label-{name}", placeholder=example, help=help_text)
            for name, (title, example, help_text) in _LABELS.items()
        }
    help_text = "The runs with which the others of the study are compared"
    is_baseline = st.checkbox("Baseline", help=help_text, key="import-label-baseline")
    given["baseline"] = "true" if is_baseline else ""
    return {name: value.strip() for name, value in given.items() if value.strip()}


def show_imported() -> None:
    """List the jobs of imported results, each with a link and a button that removes it."""
    imported = data.imported_jobs()
    undo_banner.show(UNDO)
    if imported.empty:
        return
    st.subheader("Imported results", anchor=False)
    for _, job in imported.iterrows():
        _show_one(job)


def _show_one(job: pd.Series) -> None:
    job_id = str(job["job_id"])
    with st.container(
        border=True, horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", gap="small"
    ):
        _show_results_link(str(job["study_name"]), job_id)
        failed = f", {job['failed']} failed" if job["failed"] else ""
        about = [f"{count(int(job['runs']), 'run')}{failed}", *(job[name] for name in ("tools", "arms", "hardware"))]
        if job["imported_by"]:
            about.append(f"imported by {job['imported_by']} as job {job['source_job']} of another Drafthouse")
        st.markdown(f":gray[{literal(' · '.join(part for part in about if part))}]", width="stretch")
        if visitor.allowed(Change.IMPORT, None):
            help_text = "Take its runs out of the warehouse; the files are kept"
            st.button(
                "Remove",
                icon=":material/delete:",
                key=f"remove-{job_id}",
                help=help_text,
                on_click=_remove,
                args=(job_id,),
            )


def _show_results_link(name: str, job_id: str) -> None:
    query = {url_params.JOB.key: job_id}
    st.page_link(page_file("results"), label=f"**{literal(name)}**", icon=":material/monitoring:", query_params=query)


@callback
def _remove(job_id: str) -> None:
    try:
        data.remove(job_id)
    except UserError as error:
        undo_banner.record(UNDO, f"{job_id} was not removed: {error}", icon=":material/info:")
        return
    message = f"{job_id} was removed. It disappears within seconds."
    undo_banner.record(UNDO, message, icon=":material/delete:", undo=lambda: data.restore(job_id))


def show_published() -> None:
    """Show the figures of one published source, contradictions among them, and replications."""
    sources = data.published_sources()
    st.subheader("Published figures", anchor=False)
    chosen = url_widgets.choose(url_params.SOURCE, sources["source"].tolist())
    url_widgets.report_missing(url_params.SOURCE)
    about = sources[sources["source"] == chosen].iloc[0]
    st.markdown(f"**{literal(about['title'])}** :gray[({literal(about['date'])})]")
    st.caption(_with_code(about["method"]))
    published = data.published(chosen)
    for sentence in published.contradictions:
        st.warning(literal(sentence), icon=":material/help:")
    for name in published.presets:
        _show_replications(chosen, name)
    if not published.figures.empty:
        _show_table(published.figures, f"Figures of {chosen}", chosen, "printed")


def _with_code(text: str) -> str:
    """Return the text as Markdown in which only passages between backticks are markup."""
    parts = text.split("`")
    return "".join(f"`{part}`" if index % 2 else literal(part) for index, part in enumerate(parts))


def _show_replications(source: str, name: str) -> None:
    """Show a link that fills in the study, and its results beside the published figures if it has run."""
    st.page_link(
        page_file("submit"),
        label=f"Replicate here: {literal(name)}",
        icon=":material/replay:",
        query_params={"preset": name},
    )
    for replication in data.replications(source, name):
        st.markdown(f"**Compared with {literal(replication.study_name)}** :gray[{literal(replication.job_id)}]")
        _show_table(replication.figures, f"{source} and {replication.job_id}", source, f"beside-{replication.job_id}")
        if replication.differences:
            st.caption("Other differences: " + "; ".join(map(literal, replication.differences)) + ".")


def _show_table(frame: pd.DataFrame, title: str, source: str, key: str) -> None:
    show_table(
        frame, _COLUMNS, title, View("external_results", {url_params.SOURCE.key: (source,)}), key, same_once=True
    )


if __name__ == "__main__":
    show_page()
