"""Every URL parameter of the app, and the one way to choose by it.

A parameter is bound to one selectbox, on every page that has it, so a link carries the choice. A value that a link asks
for and that is not there any more is said beside the widget.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from webapp.text import literal


@dataclass(frozen=True)
class Param:
    """A parameter: its name in the URL, the widget's label, and what one value of it is called."""

    key: str
    label: str
    noun: str
    always_in_url: bool = False  # else the first option leaves the URL clean


JOB = Param("job", "Study", "study", always_in_url=True)
CATEGORY = Param("category", "Category", "category")
RUN = Param("run", "Run", "run", always_in_url=True)
METRIC = Param("metric", "Metric", "metric")
SOURCE = Param("source", "Source", "source")
BASELINE = Param("baseline", "Baseline", "arm")
#: Of several: `webapp.several`.
CANDIDATES = Param("candidate", "Candidates", "arm")
HEAT_ROWS = Param("heat_rows", "Rows of the heat map", "kind of rows")
AT_WORKLOAD = Param("at_workload", "Workload", "workload")
AT_LOAD = Param("at_load", "Load", "load")
AGAINST = Param("against", "Outputs of", "arm")
PROMPTS = Param("prompts", "Prompts", "page of prompts")
#: Bound to other widgets: a toggle, and a number.
ALL_OUTPUTS, DRAFT_COST = "all_outputs", "draft_cost"
#: No widget: the id of a kept question.
QUERY = "query"
ALL = (
    *(JOB, RUN, CATEGORY, METRIC, SOURCE),
    *(BASELINE, CANDIDATES, HEAT_ROWS, AT_WORKLOAD, AT_LOAD, AGAINST, PROMPTS),
)

_SEPARATOR = " · "


def job_label(name: str, job_id: str) -> str:
    """How a job is listed and linked: its study's name, and its id, which begins with the date in UTC."""
    return f"{name}{_SEPARATOR}{job_id}"


def job_id_of(label: str) -> str:
    return label.rpartition(_SEPARATOR)[2]


def choose(param: Param, options: Sequence[str], *, help_text: str | None = None) -> str:
    """The chosen option; the first one where nothing, or nothing that is there, was asked for."""
    new = param.key not in st.session_state
    asked = st.session_state.get(param.key) or st.query_params.get(param.key)
    there = _there(asked, options)
    if asked and there is None:
        st.session_state[_missing_key(param)] = asked
    if there is None and param.always_in_url:
        there = options[0]
    if there is not None:
        if new and param.always_in_url:
            _put_into_url(param, there)
        st.session_state[param.key] = there
    elif param.key in st.session_state:
        del st.session_state[param.key]
    chosen: str | None = st.selectbox(
        param.label,
        list(options),
        index=None if param.always_in_url else 0,
        key=param.key,
        bind="query-params",
        on_change=_forget_missing,
        args=(param,),
        help=help_text,
    )
    return chosen or options[0]


def say_missing(*params: Param) -> None:
    """One sentence for each value that the link asked for in vain; gone once the reader has chosen another."""
    for param in params:
        if asked := st.session_state.get(_missing_key(param)):
            st.warning(
                f"This link asks for the {param.noun} {literal(asked)}, which is not here (any more). "
                f"Shown instead: {literal(st.session_state.get(param.key) or 'the first one')}.",
                icon=":material/link_off:",
            )


def _there(asked: str | None, options: Sequence[str]) -> str | None:
    """The option that is asked for; a bare job id is enough for a job."""
    if asked in options:
        return asked
    return next((option for option in options if asked and option.endswith(_SEPARATOR + asked)), None)


def _put_into_url(param: Param, value: str) -> None:
    """A bound widget writes what its reader changes; what the page itself chose is written here, before it is bound.

    A widget that finds something else in the URL at its birth takes it out: so that is replaced in a run of its own.
    """
    asked = st.query_params.get(param.key)
    if asked != value:
        st.query_params[param.key] = value
        if asked:
            st.rerun()


def _missing_key(param: Param) -> str:
    return f"missing-{param.key}"


def _forget_missing(param: Param) -> None:
    st.session_state.pop(_missing_key(param), None)
