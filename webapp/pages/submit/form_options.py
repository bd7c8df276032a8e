"""The options that the Submit form offers: presets, engines with their methods, datasets, and adding a dataset.

They are read again after a few seconds. They are suggestions only: whether a study can run is checked when it is
submitted.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd
import streamlit as st

from access.web import visitor
from jobs.datasets import listing
from jobs.datasets.listing import DatasetState
from jobs.engines.capabilities import Capabilities
from jobs.engines.checks import Problem
from jobs.engines.kinds import ENDPOINT
from jobs.engines.speculation.checks import options_of
from jobs.engines.speculation.option import Option
from jobs.fleet.worker_registry import known_engines
from jobs.presets import Preset, all_presets
from jobs.submission import Context, problems, unknown
from lab.errors import UserError
from lab.roles import Change, Role
from lab.study import Study
from lab.study.methods import METHODS
from webapp.shared import published_data, uploads
from webapp.shared.published_data import HASHES
from webapp.shared.tables import Column, columns, show_rows
from webapp.shared.text import count, literal

#: The engine of a new arm, offered even before a worker has reported its engines.
DEFAULT_ENGINE = "vllm"
DEMO = "demo"
_REFRESH_S = 10
_MAX_MIB = 200
_UPLOADER, _TYPES = "dataset-file", ["jsonl", "json", "csv", "parquet", "gz"]
#: Key in the session's state: whether the last upload was registered, and a sentence.
_OUTCOME = "datasets-outcome"
_REPLACE = "dataset-replace"
_NOTES = {"built in": "", "registered": "registered", "missing": "not on this host yet"}
_STATES = {"built in": "gray", "registered": "green", "missing": "orange"}


@st.cache_resource(show_spinner=False, ttl=_REFRESH_S)
def presets() -> list[Preset]:
    """Return all presets, the demo first, as it runs anywhere without changes."""
    return sorted(all_presets(), key=lambda preset: (preset.name != DEMO, preset.name))


@st.cache_resource(show_spinner=False, ttl=_REFRESH_S)
def engines() -> list[Capabilities]:
    """Return the engines that the workers have reported."""
    return known_engines(published_data.engine())


def engine_names() -> list[str]:
    """Return the names of reported engines, and of two that are always offered."""
    return list(dict.fromkeys([*(capabilities.engine for capabilities in engines()), DEFAULT_ENGINE, ENDPOINT]))


def is_endpoint(engine: str | None) -> bool:
    return engine == ENDPOINT or any(
        capabilities.engine == engine and capabilities.kind == ENDPOINT for capabilities in engines()
    )


def methods(engine: str | None) -> list[str]:
    """Return the reported methods of this engine, well-known ones first; all well-known ones if none is reported."""
    reported = [
        method for capabilities in engines() if capabilities.engine == engine for method in capabilities.methods
    ]
    well_known = [method for method in METHODS if method in reported or not reported]
    return list(dict.fromkeys([*well_known, *reported]))


def speculation_options(engine: str | None, method: str | None) -> list[Option]:
    """Return the method's options in the engine that a worker reported, or else in vLLM."""
    reported = next((capabilities for capabilities in engines() if capabilities.engine == engine), None)
    options = options_of(reported.kind if reported else DEFAULT_ENGINE, method)
    if reported is None or reported.speculation is None:
        return list(options)
    return [option for option in options if option.name in reported.speculation]


@st.cache_resource(show_spinner=False, ttl=_REFRESH_S)
def datasets() -> list[DatasetState]:
    return listing.list_datasets(published_data.settings())


def missing(study: Study) -> list[Problem]:
    """Return the problems that prevent submission, as far as they are known without starting an engine."""
    return list(_missing(visitor.actor().role, study))


@st.cache_resource(show_spinner=False, ttl=_REFRESH_S, max_entries=200, hash_funcs=HASHES)
def _missing(role: Role, study: Study) -> list[Problem]:
    context = Context(published_data.settings(), published_data.engine())
    return problems(context, study, role, probe_engines=False)


@st.cache_resource(show_spinner=False, ttl=_REFRESH_S, max_entries=200, hash_funcs=HASHES)
def unknown_in(study: Study) -> list[Problem]:
    """Return what will stay unknown in the study's results."""
    return unknown(Context(published_data.settings(), published_data.engine()), study)


def dataset_labels() -> dict[str, str]:
    """Return each dataset's label by its name; missing datasets come last."""
    states = sorted(datasets(), key=lambda state: state.state == "missing")
    return {state.name: f"{state.name} ({note})" if (note := _NOTES[state.state]) else state.name for state in states}


def is_generated(dataset: str) -> bool:
    """Return whether the dataset's prompts are generated, with the length that a workload sets."""
    return any(state.name == dataset and state.state == "built in" and state.stock is None for state in datasets())


def categories(dataset: str) -> list[str]:
    return next((list(state.stock.categories) for state in datasets() if state.name == dataset and state.stock), [])


def show_datasets() -> None:
    adding = ", and adding one" if visitor.allowed_any(Change.DATASETS) else ""
    expander = st.expander(
        f"Datasets on this host{adding}", icon=":material/dataset:", key="datasets", on_change="rerun"
    )
    if expander.open:
        with expander:
            _show_table()
            if visitor.allowed_any(Change.DATASETS):
                _show_upload()


def _show_table() -> None:
    shown: dict[str, tuple[Any, Callable[[DatasetState], Any]]] = {
        "name": (Column("Dataset", width=170), lambda of: of.name),
        "state": (Column("State", width=95, states=_STATES), lambda of: [of.state]),
        "rows": (Column("Rows", "%,d", width=70), lambda of: of.stock.rows if of.stock else None),
        "what": (Column("Description", width=420), lambda of: of.what),
        "get": (Column("How to get it", width=330), lambda of: of.how_to_get if of.state == "missing" else ""),
        "source": ({"width": 300}, lambda of: of.source),
        "licence": (Column("Licence", width=200), lambda of: of.licence),
        "columns": (Column("Format", width=400), lambda of: of.columns),
        "sha256": (Column("SHA-256", width=150), lambda of: of.sha256),
    }
    rows = pd.DataFrame([{name: cell(state) for name, (_, cell) in shown.items()} for state in datasets()])
    config = columns(pinned="name", **{name: column for name, (column, _) in shown.items()})
    show_rows(rows, config, "The datasets, their sources, and which of them are on this host", height=290)


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
    """Register the file as a dataset under its own name; return whether that succeeded, and a sentence."""
    with tempfile.TemporaryDirectory(prefix="drafthouse-upload-") as folder:
        file = Path(folder, Path(file_name).name)
        with file.open("wb") as copy:
            shutil.copyfileobj(content, copy)
        try:
            added = listing.add_dataset(published_data.settings(), name, file, actor=visitor.actor(), replace=replace)
        except UserError as error:
            return False, literal(str(error).replace(f"{folder}/", ""))
    datasets.clear()
    _missing.clear()
    stock = added.stock
    rows = f" with {count(stock.rows, 'row')}" if stock else ""
    if stock and stock.invalid:
        rows += f", without {count(stock.invalid, 'invalid record')} (the first in {literal(stock.first_invalid)})"
    return True, f"{literal(added.name)} is registered{rows}: you can choose it as the dataset of a workload."
