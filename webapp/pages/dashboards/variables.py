"""Variables of a dashboard: a study, a load and a metric that hold for all cards, instead of those that were pinned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import streamlit as st

from warehouse.app_db.pins import Pin
from webapp.charts.results import MEASURES
from webapp.pages.explore import data as explore_data
from webapp.shared import published_data, study_picker, url_params, url_widgets
from webapp.shared.url_params import FOR_LOAD, FOR_METRIC, FOR_STUDY

AS_PINNED = "as pinned"
_EXPLORE = "explore"
#: Variable -> the parameters of the pages' links that it stands for.
_STANDS_FOR: dict[str, tuple[str, ...]] = {
    FOR_STUDY.key: (url_params.JOB.key, url_params.SLICED["study"].key),
    FOR_METRIC.key: (url_params.METRIC.key,),
    FOR_LOAD.key: (url_params.AT_LOAD.key, url_params.SLICED["load"].key),
}
Values = Mapping[str, str]


def choose() -> Values:
    """Return the chosen variables, without those left as pinned."""
    if published_data.publication() is None:
        return {}
    options = explore_data.options()
    of_param = {
        FOR_STUDY: study_picker.labels_of(study_picker.listed_studies()),
        FOR_METRIC: [measure.label for measure in MEASURES],
        FOR_LOAD: sorted(options.loc[options["dimension"] == "load", "value"]),
    }
    chosen = {}
    with st.grid(len(of_param), gap="small", min_column_width=150):
        for param, values in of_param.items():
            chosen[param.key] = url_widgets.choose(param, [AS_PINNED, *values])
    url_widgets.report_missing(FOR_STUDY, FOR_METRIC, FOR_LOAD)
    return {key: value for key, value in chosen.items() if value != AS_PINNED}


def applied(pins: Sequence[Pin], values: Values) -> list[Pin]:
    """Return the pins with these values in place of the parameters of their links.

    On Explore, where a load is a filter, the filter is set. Cards of SQL and text stay as they are.
    """
    return [replace(pin, shown=replace(pin.shown, parameters=_parameters(pin, values))) for pin in pins]


def ignored(pin: Pin, values: Values) -> str:
    """Return a sentence that names the chosen variables which a card cannot follow; empty if it follows all."""
    names = [param.noun for param in (FOR_STUDY, FOR_METRIC, FOR_LOAD) if not _follows(pin, param.key, values)]
    return f"Not of the {' and '.join(names)} chosen above: this card shows what was pinned." if names else ""


def _follows(pin: Pin, variable: str, values: Values) -> bool:
    if variable not in values:
        return True
    parameters = _parameters(pin, {variable: values[variable]})
    return any(parameters.get(key) == (values[variable],) for key in _STANDS_FOR[variable])


def _parameters(pin: Pin, values: Values) -> Mapping[str, Sequence[str]]:
    parameters = dict(pin.shown.parameters)
    for variable, value in values.items():
        for key in _STANDS_FOR[variable]:
            if key in parameters or (pin.shown.page == _EXPLORE and key == url_params.SLICED["load"].key):
                parameters[key] = (value,)
    return parameters
