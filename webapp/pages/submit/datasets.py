"""Which datasets there are, how one gets those that are not here, and adding a file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from jobs.datasets.listing import DatasetState
from lab.errors import UserError
from webapp.pages.submit import form_options
from webapp.shared.text import count, literal

_MOST_MIB = 200
_TYPES = ["jsonl", "json", "csv", "parquet"]
_SAID = "datasets-said"


def show() -> None:
    folded = st.expander(
        "Datasets: what is here, and adding a file", icon=":material/dataset:", key="datasets", on_change="rerun"
    )
    if folded.open:
        with folded:
            _show_table(form_options.datasets())
            _show_upload()


def _show_table(states: list[DatasetState]) -> None:
    st.dataframe(
        pd.DataFrame([_row(state) for state in states]),
        hide_index=True,
        height=290,
        placeholder="",
        column_config=_columns(),
        alt="The datasets, where they are from and which of them are here",
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
    text = st.column_config.TextColumn
    states = ["built in", "registered", "missing"]
    return {
        "name": text("Dataset", width=170, pinned=True),
        "state": st.column_config.MultiselectColumn(
            "State", options=states, color=["gray", "green", "orange"], width=95
        ),
        "rows": st.column_config.NumberColumn("Rows", format="%,d", width=70),
        "what": text("What it is", width=420),
        "get": text("How to get it", width=330),
        "source": text("Source", width=300),
        "licence": text("Licence", width=200),
        "columns": text("Format", width=400),
        "sha256": text("SHA-256", width=150),
    }


def _show_upload() -> None:
    name, file, add = st.columns([1.4, 3, 1.2], vertical_alignment="bottom")
    said = "A name of your own for JSONL with prompt or messages; or the name of a dataset above for its own file"
    with name:
        wanted = st.text_input("Name", key="dataset-name", placeholder="like my_prompts", help=said).strip()
    with file:
        uploaded = st.file_uploader("File", _TYPES, key="dataset-file", max_upload_size=_MOST_MIB)
    with add:
        ready = bool(wanted and uploaded)
        if st.button("Check and add", icon=":material/upload_file:", disabled=not ready, width="stretch") and uploaded:
            st.session_state[_SAID] = _add(wanted, uploaded.name, uploaded.getvalue())
            st.rerun(scope="app")
    st.caption(f"Files over {_MOST_MIB} MiB: `drafthouse datasets add NAME FILE` on the host of the workers.")
    if told := st.session_state.pop(_SAID, None):
        (st.success if told[0] else st.error)(told[1])


def _add(name: str, file_name: str, content: bytes) -> tuple[bool, str]:
    """Whether it is registered now, and a sentence. The file keeps its name, because messages and lists tell it."""
    with tempfile.TemporaryDirectory(prefix="drafthouse-upload-") as folder:
        file = Path(folder, Path(file_name).name)
        file.write_bytes(content)
        try:
            added = form_options.add_dataset(name, file)
        except UserError as error:
            return False, literal(str(error).replace(f"{folder}/", ""))
    rows = f" with {count(added.stock.rows, 'row')}" if added.stock else ""
    return True, f"{literal(added.name)} is registered{rows}: choose it as the dataset of a workload."
