"""Every URL parameter of the app, and the one way to choose by it.

A parameter is bound to one kind of widget, on every page that has it, so a link carries the choice: to a selectbox
(`choose`), to a list of which several may be chosen (`choose_many`, a repeated parameter) or to a day (`choose_day`). A
value that a link asks for and that is not there any more is said beside the widget.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import streamlit as st

from webapp.link import bound, missing_key
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
#: A list (`choose_many`).
CANDIDATES = Param("candidate", "Candidates", "arm")
HEAT_ROWS = Param("heat_rows", "Rows of the heat map", "kind of rows")
AT_WORKLOAD = Param("at_workload", "Workload", "workload")
AT_LOAD = Param("at_load", "Load", "load")
AGAINST = Param("against", "Outputs of", "arm")
PROMPTS = Param("prompts", "Prompts", "page of prompts")
#: Bound to other widgets: a toggle, and a number.
ALL_OUTPUTS, DRAFT_COST = "all_outputs", "draft_cost"
PER = Param("per", "Cost", "kind of cost")
KEPT = Param("kept", "Keeps the SLO with", "share of requests")
#: Written, not chosen.
PRICE = Param("price", "Price of an hour (USD)", "price")
UTILISATION = Param("utilisation", "Utilisation (%)", "utilisation")
#: How the Explore page draws.
MARK = Param("mark", "Mark", "mark")
X = Param("x", "x", "x axis")
#: The x axis of a scatter, which may be any number too.
SCATTER_X = Param("scatter_x", "x", "x axis")
COLOUR = Param("colour", "Colour", "colour")
FACET = Param("facet", "Panels", "way to part the panels")
LATENCY = Param("latency", "Latency", "latency")
FRONTIER = Param("frontier", "Two aims", "pair of aims")
#: Which runs it draws: by the name of a dimension of `warehouse.slices`, several values each.
SLICED: dict[str, Param] = {
    "study": Param("study", "Study", "study", always_in_url=True),
    "arm": Param("arms", "Arm", "arm"),
    "dataset": Param("dataset", "Dataset", "dataset"),
    "category": Param("categories", "Category", "category"),
    "concurrency": Param("concurrency", "Concurrency", "concurrency"),
    "load": Param("load", "Load", "load"),
    "method": Param("method", "Method", "method"),
    "draft_model": Param("draft", "Draft model", "draft model"),
    "k": Param("k", "Draft tokens k", "number of draft tokens"),
    "engine": Param("engine", "Engine and version", "engine"),
    "hardware": Param("hardware", "Hardware", "hardware"),
    "target": Param("target", "Target", "target"),
    "origin": Param("origin", "Origin", "origin"),
}
VALIDITY = Param("validity", "Validity", "validity")
BEGUN_FROM = Param("from", "Begun on or after", "first day")
BEGUN_TO = Param("to", "Begun on or before", "last day")
#: Tabs (`webapp.open_tabs`), on each page those of its own.
RESULTS_TAB = Param("results_tab", "Table", "table")
COMPARE_TAB = Param("compare_tab", "Table", "table")
COST_TAB = Param("cost_tab", "Table", "table")
ADVICE_TAB = Param("advice_tab", "Table", "table")
EXPLORE_TAB = Param("explore_tab", "Table", "table")
RUN_TAB = Param("run_tab", "Part of the run", "part of a run")
#: No widget: the id of a kept question.
QUERY = "query"
#: No widget: the id of a dashboard.
DASHBOARD = "dashboard"
ALL = (
    *(JOB, RUN, CATEGORY, METRIC, SOURCE, MARK, X, SCATTER_X, COLOUR, FACET, LATENCY, FRONTIER),
    *SLICED.values(),
    *(VALIDITY, BEGUN_FROM, BEGUN_TO),
    *(BASELINE, CANDIDATES, HEAT_ROWS, AT_WORKLOAD, AT_LOAD, AGAINST, PROMPTS),
    *(PER, KEPT, PRICE, UTILISATION),
    *(RESULTS_TAB, COMPARE_TAB, COST_TAB, ADVICE_TAB, EXPLORE_TAB, RUN_TAB),
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
        st.session_state[missing_key(param.key)] = asked
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
        **bound(param.key),
        on_change=forget_missing,
        args=(param,),
        help=help_text,
    )
    return chosen or options[0]


def choose_many(
    param: Param,
    options: Sequence[str],
    *,
    first: Sequence[str] = (),
    help_text: str | None = None,
    placeholder: str | None = None,
    show: bool = True,
    on_change: Any = None,
) -> tuple[str, ...]:
    """The chosen options, none where none was asked for; `first` where the link says nothing at all.

    Without `show` there is no widget, and nothing is chosen, but what a link asks for in vain is still said.
    """
    new = param.key not in st.session_state
    asked = st.query_params.get_all(param.key) if new else list(st.session_state[param.key])
    found = {each: _there(each, options) for each in asked}
    if lost := [each for each, there in found.items() if there is None]:
        st.session_state[missing_key(param.key)] = ", ".join(lost)
    if not show:
        return ()
    chosen = list(dict.fromkeys(there for there in found.values() if there is not None)) or (list(first) if new else [])
    if new and chosen != asked:
        st.query_params[param.key] = chosen
        if asked:
            st.rerun()
    st.session_state[param.key] = chosen
    picked: list[str] = st.multiselect(
        param.label,
        list(options),
        **bound(param.key),
        on_change=on_change or forget_missing,
        args=(param,),
        help=help_text,
        placeholder=placeholder or "any",
    )
    return tuple(picked)


def choose_day(param: Param, *, help_text: str | None = None) -> date | None:
    """A day, or None. A link whose day is none is said."""
    if param.key not in st.session_state and (asked := st.query_params.get(param.key)):
        try:
            date.fromisoformat(asked)
        except ValueError:
            st.session_state[missing_key(param.key)] = asked
    picked: date | None = st.date_input(
        param.label,
        None,
        **bound(param.key),
        on_change=forget_missing,
        args=(param,),
        format="YYYY-MM-DD",
        help=help_text,
    )
    return picked


def reset(values: Mapping[Param, Any]) -> None:
    """In a callback: put these values where their widgets are, and forget what was asked for in vain."""
    for param, value in values.items():
        forget_missing(param)
        if param.key in st.session_state:
            st.session_state[param.key] = value


def write(param: Param, *, placeholder: str, help_text: str) -> str:
    """What the reader has written, which the link carries; empty for nothing."""
    written: str = st.text_input(param.label, **bound(param.key), placeholder=placeholder, help=help_text)
    return written.strip()


def note_missing(param: Param, options: Sequence[str]) -> None:
    """Before its widget is made: whether the link asks for what is not among the options, for `say_missing`."""
    if param.key not in st.session_state and _there(asked := st.query_params.get(param.key), options) is None and asked:
        st.session_state[missing_key(param.key)] = asked


def say_missing(*params: Param) -> None:
    """One sentence for each value that the link asked for in vain; gone once the reader has chosen another."""
    for param in params:
        if asked := st.session_state.get(missing_key(param.key)):
            st.warning(
                f"This link asks for the {param.noun} {literal(asked)}, which is not here (any more). "
                f"Shown instead: {literal(_shown(param))}.",
                icon=":material/link_off:",
            )


def _shown(param: Param) -> str:
    value = st.session_state.get(param.key)
    if isinstance(value, list):
        return ", ".join(value) or "any"
    return str(value or ("any day" if param in (BEGUN_FROM, BEGUN_TO) else "the first one"))


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


def forget_missing(param: Param) -> None:
    st.session_state.pop(missing_key(param.key), None)
