"""The datasets on this host, how to get the missing ones, and adding one from a file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd
import streamlit as st

from access.web import visitor
from jobs.datasets.listing import DatasetState
from lab.errors import UserError
from lab.roles import Change
from webapp.pages.submit import form_options
from webapp.shared import uploads
from webapp.shared.columns import Column, columns
from webapp.shared.text import count, literal

_MAX_MIB = 200
_UPLOADER = "dataset-file"
_TYPES = ["jsonl", "json", "csv", "parquet"]
#: Key in the session's state: whether the last upload was registered, and a sentence.
_OUTCOME = "datasets-outcome"
_REPLACE = "dataset-replace"


def show() -> None:
    adding = ", and adding one" if visitor.allowed_any(Change.DATASETS) else ""
    expander = st.expander(
        f"Datasets on this host{adding}", icon=":material/dataset:", key="datasets", on_change="rerun"
    )
    if expander.open:
        with expander:
            _show_table(form_options.datasets())
            if visitor.allowed_any(Change.DATASETS):
                _show_upload()


def _show_table(states: list[DatasetState]) -> None:
    st.dataframe(
        pd.DataFrame([_row(state) for state in states]),
        hide_index=True,
        height=290,
        placeholder="",
        column_config=_columns(),
        alt="The datasets, their sources, and which of them are on this host",
    )


def _row(state: DatasetState) -> dict[str, Any]:
    return {
        "name": state.name,
        "state": [state.state],
        "rows": state.stock.rows if state.stock else None,
        "what": state.what,
        "get": state.how_to_get if state.state == "missing" else "",
        "source": state.source,
        "licence": state.licence,
        "columns": state.columns,
        "sha256": state.sha256,
    }


def _columns() -> dict[str, Any]:
    return columns(
        pinned="name",
        name=Column("Dataset", width=170),
        state=Column("State", width=95, states={"built in": "gray", "registered": "green", "missing": "orange"}),
        rows=Column("Rows", "%,d", width=70),
        what=Column("Description", width=420),
        get=Column("How to get it", width=330),
        source={"width": 300},
        licence=Column("Licence", width=200),
        columns=Column("Format", width=400),
        sha256=Column("SHA-256", width=150),
    )


def _show_upload() -> None:
    name, file, add = st.columns([1.4, 3, 1.2], vertical_alignment="bottom")
    help_text = (
        "A new name for a JSONL file with prompts or messages of your own; or a name of the list for a file in that "
        "format: mooncake for AIPerf's and Mooncake's traces, otel for OpenTelemetry's spans"
    )
    with name:
        chosen = st.text_input("Name", key="dataset-name", placeholder="like my_prompts", help=help_text).strip()
    with file:
        files = uploads.choose_files("File", _TYPES, _UPLOADER, _MAX_MIB)
    with add:
        ready = bool(chosen and files)
        if st.button("Check and add", icon=":material/upload_file:", disabled=not ready, width="stretch") and files:
            with st.spinner(f"Checking {literal(files[0].name)} ..."):
                replace = bool(st.session_state.get(_REPLACE))
                st.session_state[_OUTCOME] = register(chosen, files[0].name, files[0], replace=replace)
            uploads.forget(_UPLOADER)
            st.rerun(scope="app")
    st.checkbox("Replace another file of this name", key=_REPLACE)
    st.caption(f"Files are refused above {_MAX_MIB} MiB: for those, `drafthouse datasets add NAME FILE` on this host.")
    if outcome := st.session_state.pop(_OUTCOME, None):
        is_registered, sentence = outcome
        (st.success if is_registered else st.error)(sentence)


def register(name: str, file_name: str, content: BinaryIO, *, replace: bool = False) -> tuple[bool, str]:
    """Whether it is registered now, and a sentence. The file keeps its name, which messages and lists show."""
    with tempfile.TemporaryDirectory(prefix="drafthouse-upload-") as folder:
        file = Path(folder, Path(file_name).name)
        with file.open("wb") as copy:
            shutil.copyfileobj(content, copy)
        try:
            added = form_options.add_dataset(name, file, replace=replace)
        except UserError as error:
            return False, literal(str(error).replace(f"{folder}/", ""))
    rows = f" with {count(added.stock.rows, 'row')}" if added.stock else ""
    return True, f"{literal(added.name)} is registered{rows}: you can choose it as the dataset of a workload."
