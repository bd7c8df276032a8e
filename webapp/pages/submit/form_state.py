"""The submit page's form: fields and rows for a draft that lives as long as the visitor's session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import streamlit as st

from lab.study import Study
from webapp.pages.submit import advanced, row_widgets
from webapp.pages.submit import arms as arm_rows
from webapp.pages.submit import loads as load_rows
from webapp.pages.submit import workloads as workload_rows
from webapp.pages.submit.form_model import FormValues, Row, from_study, to_toml
from webapp.pages.submit.validation_messages import Problem

FIELDS = ("name", "target", "repeats", *advanced.FIELDS)
_INITIAL, _CURRENT, _BEGUN = "submit-initial", "submit-current", "submit-begun"
#: Narrower than this (pixels) workloads and loads stand below each other.
_LEAST_WIDTH = 560


def begin(study: Study) -> None:
    """Fill the form with this study."""
    fill(from_study(study))
    st.session_state[_BEGUN] = to_toml(current())


def is_changed() -> bool:
    """Whether the form holds something else than the study it was filled with."""
    return to_toml(current()) != str(st.session_state[_BEGUN])


def fill(values: FormValues) -> None:
    """With what was typed, here or as text: `is_changed` still tells of the study before."""
    st.session_state[_INITIAL] = values.fields
    st.session_state[_CURRENT] = values
    row_widgets.begin(arms=values.arms, workloads=values.workloads, loads=values.loads)


def holds_something() -> bool:
    return _CURRENT in st.session_state


def current() -> FormValues:
    """What the form holds, also while it is not shown."""
    values: FormValues = st.session_state[_CURRENT]
    return values


def edit(problems: Sequence[Problem]) -> FormValues:
    """Draw the form, each problem beside its field, and return what it holds now."""
    if row_widgets.key("name") not in st.session_state and st.session_state.get(_CURRENT) is not None:
        # The visitor comes back: the widgets were forgotten (the name is none of those that are kept), what was typed
        # was not.
        fill(current())
    initial: Row = st.session_state[_INITIAL]
    fields = _study_fields(initial, problems)
    arms = arm_rows.edit(problems)
    with st.grid(2, min_column_width=_LEAST_WIDTH, gap="small"):
        workloads = workload_rows.edit(problems)
        loads = load_rows.edit(problems)
    fields |= advanced.edit(initial, problems)
    values = FormValues(fields, arms, workloads, loads)
    st.session_state[_CURRENT] = values
    return values


def _study_fields(initial: Row, problems: Sequence[Problem]) -> dict[str, Any]:
    name, target, repeats = st.columns([3, 3, 1])
    with name:
        fields = {"name": advanced.field("name", "Name", initial, problems, st.text_input)}
    with target:
        said = "`reference` is the model this project ships; else a folder on the worker or a hub name."
        fields["target"] = advanced.field("target", "Target model", initial, problems, st.text_input, help=said)
    with repeats:
        said = "Each cell is measured so often; one measurement is not a result"
        fields["repeats"] = advanced.field("repeats", "Repeats", initial, problems, st.number_input, step=1, help=said)
    return fields
