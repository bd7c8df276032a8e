"""The parts of the page of other people's figures: their files, and what they published, beside what was measured."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from lab.errors import UserError
from webapp.pages.external_results import data
from webapp.shared import url_params, url_widgets
from webapp.shared.page_files import page_file
from webapp.shared.tables import show_table
from webapp.shared.text import count, literal
from webapp.shared.url_params import View

_MOST_MIB = 128
_SAID = "import-said"
_AUTO = "auto"


def show_upload() -> None:
    """Upload, and what became of the upload before."""
    with st.expander("Import result files of other tools", icon=":material/upload_file:", expanded=True):
        uploaded = st.file_uploader(
            "Files",
            ["json", "jsonl"],
            accept_multiple_files=True,
            key="import-files",
            max_upload_size=_MOST_MIB,
            help="Of vllm bench serve and sweep, GuideLLM, AIPerf, SGLang, genai-bench and inference-perf; files of "
            "one run together",
        )
        labels = st.text_input(
            "Labels",
            key="import-labels",
            placeholder="hardware=H200, study=our baseline, arm=no draft",
            help="KEY=VALUE, with commas between them; they tell what the files do not",
        )
        if st.button("Import", icon=":material/upload_file:", disabled=not uploaded) and uploaded:
            st.session_state[_SAID] = _import([(file.name, file.getvalue()) for file in uploaded], labels)
        st.caption("Folders and what another Drafthouse exported: `drafthouse import FOLDER` on this host.")
        if told := st.session_state.pop(_SAID, None):
            (st.success if told[0] else st.error)(told[1])


def _import(files: list[tuple[str, bytes]], labels: str) -> tuple[bool, str]:
    """Whether they are imported now, and a sentence."""
    try:
        found = data.import_files(files, _labels(labels))
    except UserError as error:
        return False, literal(error)
    new = len(found.new_run_ids)
    if not new:
        return True, f"{count(len(found.runs), 'run')} in these files, and none of them is new."
    jobs = literal(", ".join(found.jobs))
    return True, f"{count(new, 'new run')} of {len(found.runs)}: on the Results page in seconds, as {jobs}."


def _labels(text: str) -> dict[str, str]:
    """Raises UserError for what is no KEY=VALUE."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    if any(not (key.strip() and mark and value.strip()) for key, mark, value in pairs):
        raise UserError("labels are KEY=VALUE, with commas between them")
    return {key.strip(): value.strip() for key, _, value in pairs}


def show_published() -> None:
    """The sources, the figures of one of them, and what does not fit together."""
    sources = data.published_sources()
    st.subheader("Published figures", anchor=False)
    chosen = url_widgets.choose(url_params.SOURCE, sources["source"].tolist())
    url_widgets.say_missing(url_params.SOURCE)
    about = sources[sources["source"] == chosen].iloc[0]
    st.markdown(f"**{literal(about['title'])}** :gray[({literal(about['date'])})]")
    st.caption(literal(about["method"]))
    published = data.published(chosen)
    for sentence in published.doubts:
        st.warning(literal(sentence), icon=":material/help:")
    for name in published.presets:
        _show_repeated(chosen, name)
    if not published.figures.empty:
        _table(published.figures, f"What {chosen} printed", chosen, "printed")


def _show_repeated(source: str, name: str) -> None:
    """A way to measure it, and both side by side where that was done."""
    st.page_link(
        page_file("submit"),
        label=f"Repeat it here: {literal(name)}",
        icon=":material/replay:",
        query_params={"preset": name},
    )
    for each in data.repeated(source, name):
        st.markdown(f"**Beside {literal(each.study_name)}** :gray[{literal(each.job_id)}]")
        _table(each.beside, f"{source} beside {each.job_id}", source, f"beside-{each.job_id}")
        if each.differences:
            st.caption("What differs besides: " + "; ".join(map(literal, each.differences)) + ".")


def _table(frame: pd.DataFrame, title: str, source: str, key: str) -> None:
    show_table(frame, _TITLES, title, View("external_results", {url_params.SOURCE.key: (source,)}), key)


_NUMBER, _TEXT = st.column_config.NumberColumn, st.column_config.TextColumn
#: Column of a table of this page -> how it is headed.
_TITLES: dict[str, Any] = {
    "metric": _TEXT("Metric", help="In the source's own words", pinned=True),
    "printed": _TEXT("Printed", help="The digits as they were printed"),
    "unit": _TEXT("Unit"),
    "scale": _TEXT("Scale", help="Absolute, or against the source's own baseline"),
    "ratio_to_baseline": _NUMBER("To its baseline", format="%.2f×"),
    "method": _TEXT("Method"),
    "num_speculative_tokens": _NUMBER("Drafted tokens", format="%d"),
    "draft_model": _TEXT("Draft model"),
    "target": _TEXT("Target"),
    "hardware": _TEXT("Hardware"),
    "engine": _TEXT("Engine"),
    "engine_version": _TEXT("Engine version"),
    "dataset": _TEXT("Dataset"),
    "access_pattern": _TEXT("Access pattern"),
    "load": _TEXT("Load"),
    "study": _TEXT("Experiment"),
    "price_usd_per_hour": _NUMBER("Price (USD/h)", format="%.2f"),
    "note": _TEXT("Remark", width="large"),
    "published": _NUMBER("Published", format="%.4g"),
    "here": _NUMBER("Measured here", format="%.4g"),
    "here / there": _NUMBER("Here / there", format="%.2f×"),
}
