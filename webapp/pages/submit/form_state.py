"""The Submit form and the draft it holds, which lives as long as the visitor's session."""

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

FIELDS = ("name", "target", "repeats", "budget", *advanced.FIELDS)
_INITIAL, _CURRENT, _SAVED = "submit-initial", "submit-current", "submit-saved"
#: In pixels: in less, workloads and loads stand below each other.
_MIN_WIDTH = 560
#: Of two fields side by side whose labels take one line.
_MIN_FIELDS_WIDTH = 400


def begin(study: Study) -> None:
    """Fill the form with this study; from now on changes to it count as unsaved."""
    fill(from_study(study))
    st.session_state[_SAVED] = to_toml(current())


def is_changed() -> bool:
    """Whether the form differs from the study it was last filled with by `begin`."""
    return to_toml(current()) != str(st.session_state[_SAVED])


def fill(values: FormValues) -> None:
    """Fill the form with edits, which still count as changes to the study that `begin` was given."""
    st.session_state[_INITIAL] = values.fields
    st.session_state[_CURRENT] = values
    row_widgets.begin(arms=values.arms, workloads=values.workloads, loads=values.loads)


def is_filled() -> bool:
    return _CURRENT in st.session_state


def current() -> FormValues:
    """The form's values, whether it is shown or not."""
    values: FormValues = st.session_state[_CURRENT]
    return values


def edit(problems: Sequence[Problem]) -> FormValues:
    """Draw the form, each problem beside its field, and return its values."""
    if row_widgets.key("name") not in st.session_state and st.session_state.get(_CURRENT) is not None:
        # Back from another page: Streamlit forgot the widgets (the name's is not persisted), but not the session state.
        fill(current())
    initial: Row = st.session_state[_INITIAL]
    fields = _study_fields(initial, problems)
    arms = arm_rows.edit(problems, str(fields["target"]))
    with st.grid(2, min_column_width=_MIN_WIDTH, gap="small"):
        workloads = workload_rows.edit(problems)
        loads = load_rows.edit(problems)
    fields |= advanced.edit(initial, problems)
    values = FormValues(fields, arms, workloads, loads)
    st.session_state[_CURRENT] = values
    return values


def _study_fields(initial: Row, problems: Sequence[Problem]) -> dict[str, Any]:
    with st.grid(2, min_column_width=_MIN_FIELDS_WIDTH, gap="small"):
        name, target = st.columns(2)
        repeats, budget = st.columns([2, 3])
    with name:
        fields = {"name": advanced.field("name", "Name", initial, problems, st.text_input)}
    with target:
        text = "A folder on the worker or a hub name; `reference` is the model included with Drafthouse."
        fields["target"] = advanced.field("target", "Target model", initial, problems, st.text_input, help=text)
    with repeats:
        text = "Runs per cell; a single run gives no confidence interval"
        fields["repeats"] = advanced.field("repeats", "Repeats", initial, problems, st.number_input, step=1, help=text)
    with budget:
        text = (
            "Leave it empty for a fixed number of repeats. With a budget, like 45 min, the study looks at its verdicts "
            "after every repeat and stops measuring what is decided; verdicts pay for the looks."
        )
        label = "Until decided, within"
        fields["budget"] = advanced.field(
            "budget", label, initial, problems, st.text_input, placeholder="45 min", help=text
        )
    return fields
