"""The Explore page's widgets: which runs are shown, and how they are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from warehouse.queries.slices import TAG
from webapp.charts.explore.axes import natural
from webapp.pages.explore import data
from webapp.pages.explore.selection import (
    ANY_PERCENTILE,
    BESIDE,
    EVERY_STUDY,
    MARKS,
    USES,
    Mark,
    choices,
    parse,
    percent_of,
)
from webapp.shared import published_data, url_params, url_widgets

_COLUMNS, _LEAST_WIDTH = 4, 150
#: Of what draws: the mark, the metric, whose names are long, and the rest.
_WIDTHS = (1, 1.7, 1.2, 1.2, 1.2)
_OPEN = "explore-open"
#: Filters in the expander.
_MORE = (
    url_params.BEGUN_FROM,
    url_params.BEGUN_TO,
    *(param for name, param in url_params.SLICED.items() if name != "study"),
)
Chosen = dict[str, Sequence[str]]


def choose_drawing() -> Chosen:
    """Choose the mark, then what this mark needs."""
    first, *places = st.columns(_WIDTHS, gap="small")
    with first:
        chosen = url_widgets.choose(url_params.MARK, choices(url_params.MARK))
    mark: Mark = next(option for option in MARKS if option == chosen)
    drawing: Chosen = {url_params.MARK.key: [mark]}
    for param, place in zip(USES[mark], places, strict=False):
        with place:
            drawing[param.key] = [url_widgets.choose(param, choices(param))]
            if param == url_params.METRIC and drawing[param.key][0] in ANY_PERCENTILE:
                help_text = "Of all requests of a run, or of their tokens or chunks; above 0 and below 100"
                written = url_widgets.write(
                    url_params.PERCENTILE, placeholder=f"{percent_of(''):g}", help_text=help_text
                )
                drawing[url_params.PERCENTILE.key] = [written]
    return drawing


def choose_runs(options: pd.DataFrame) -> Chosen:
    """Choose the filters; `options` as `slices.options` gives it. Reports values of the link that are left out."""
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="small")
    with row.container(width="stretch", key="explore-studies"):
        filters: Chosen = {url_params.SLICED["study"].key: _choose_studies(options)}
    with row.container(width=_LEAST_WIDTH):
        filters[url_params.VALIDITY.key] = [url_widgets.choose(url_params.VALIDITY, choices(url_params.VALIDITY))]
    with row:
        st.button("Reset", icon=":material/restart_alt:", on_click=reset)
    folded = st.expander(
        "More filters", icon=":material/filter_alt:", expanded=_is_open(), key="explore-more", on_change="rerun"
    )
    is_set = any(st.session_state.get(param.key, param.key in st.query_params) for param in _MORE)
    if folded.open or is_set:  # a filter applies while the expander is closed
        with folded, st.grid(_COLUMNS, gap="small", min_column_width=_LEAST_WIDTH):
            of_studies = parse({key: chosen for key, chosen in filters.items() if chosen}).filters
            filters |= _choose_more(data.options(of_studies))
    url_widgets.report_missing(url_params.MARK, *_drawn_by(), *url_params.SLICED.values())
    url_widgets.report_missing(url_params.VALIDITY, url_params.BEGUN_FROM, url_params.BEGUN_TO)
    return {key: chosen for key, chosen in filters.items() if chosen}


def _choose_more(options: pd.DataFrame) -> Chosen:
    filters: Chosen = {
        param.key: _choose_values(options, name, param) for name, param in url_params.SLICED.items() if param in _MORE
    }
    for param in (url_params.BEGUN_FROM, url_params.BEGUN_TO):
        day = url_widgets.choose_day(param)
        filters[param.key] = [] if day is None else [day.isoformat()]
    return filters


def reset() -> None:
    """Set every widget to its default."""
    values: dict[url_params.Param, object] = {param: [] for param in url_params.SLICED.values()}
    values |= {url_params.SLICED["study"]: [_first()], url_params.BEGUN_FROM: None, url_params.BEGUN_TO: None}
    values |= {url_params.PERCENTILE: ""}
    values |= {param: choices(param)[0] for param in (url_params.MARK, url_params.VALIDITY, *_drawn_by())}
    url_widgets.reset(values)


def drop(name: str) -> None:
    """Drop the filter of this name, one of `Filters.active`. A callback."""
    if name == "validity":
        url_widgets.reset({url_params.VALIDITY: "any"})
    elif name in ("from", "to"):
        url_widgets.reset({url_params.BEGUN_FROM if name == "from" else url_params.BEGUN_TO: None})
    else:
        url_widgets.reset({url_params.SLICED[name]: [EVERY_STUDY] if name == "study" else []})


def _drawn_by() -> list[url_params.Param]:
    return list(dict.fromkeys(param for uses in USES.values() for param in uses))


def _is_open() -> bool:
    """It opens if the link sets one of its filters; then the reader decides."""
    if _OPEN not in st.session_state:
        st.session_state[_OPEN] = any(param.key in st.query_params for param in _MORE)
    is_open: bool = st.session_state[_OPEN]
    return is_open


def _first() -> str:
    """Return the study in the bar, or published results before there is any study."""
    chosen: str | None = st.session_state.get(url_params.JOB.key)
    return chosen or next(iter(BESIDE))


def _choose_studies(options: pd.DataFrame) -> Sequence[str]:
    studies = options[options["dimension"] == "study"].sort_values("begun", ascending=False, na_position="last")
    origins = set(options.loc[options["dimension"] == "origin", "value"])
    beside = [name for name, origin in BESIDE.items() if origin in origins]
    return url_widgets.choose_many(
        url_params.SLICED["study"],
        [EVERY_STUDY, *beside, *studies["value"], *_hidden_ones()],
        first=[_first()],
        help_text="Choose one or more; “everything published” adds all published results",
        on_change=_studies_changed,
        keeps_missing=True,
    ) or [EVERY_STUDY]


def _hidden_ones() -> list[str]:
    """Return the labels of hidden studies that the reader, the link or the bar names."""
    key = url_params.SLICED["study"].key
    named = [*(st.session_state.get(key) or st.query_params.get_all(key)), _first()]
    studies = published_data.studies_with_results() if published_data.publication() else pd.DataFrame()
    if studies.empty:
        return []
    found = studies[studies["is_hidden"] & studies["job_id"].isin(list(map(url_params.job_id_of, named)))]
    return [url_params.job_label(*pair) for pair in zip(found["study_name"], found["job_id"], strict=True)]


def _studies_changed(param: url_params.Param) -> None:
    """Keep the choice unambiguous: no study means every study, and choosing one removes “every study”."""
    chosen = st.session_state[param.key]
    if not chosen or chosen[-1] == EVERY_STUDY:
        st.session_state[param.key] = [EVERY_STUDY]
    elif EVERY_STUDY in chosen:
        st.session_state[param.key] = [study for study in chosen if study != EVERY_STUDY]
    url_widgets.forget_missing(param)


def _choose_values(options: pd.DataFrame, name: str, param: url_params.Param) -> Sequence[str]:
    """Draw a filter if it has several values, each with its number of runs in the chosen studies."""
    rows = options[options["dimension"] == name]
    values = sorted(rows["value"], key=natural)
    runs = dict(zip(rows["value"], rows["runs"], strict=True))
    return url_widgets.choose_many(
        param,
        values,
        show=len(values) > (name != TAG),
        keeps_missing=True,
        show_option=lambda value: f"{value} ({runs.get(value, 0):,})",
    )
