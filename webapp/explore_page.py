"""The parts of the Explore page: what is chosen, how many runs that is, the chart, and the same rows as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
import streamlit as st

from webapp import data, drawing, explore_data, explore_tables, params, results_page
from webapp.about import View
from webapp.charts.explore_axes import DIMENSIONS, natural
from webapp.explore_figures import Shown
from webapp.explore_slice import BESIDE, EVERY_STUDY, MARKS, USES, Asked, Mark, choices
from webapp.text import count, literal, number

_COLUMNS = 4
_CHOSEN = "explore-chosen"
_LABELS = {axis.column: axis.label for axis in DIMENSIONS}
_MOST_TOLD = 12


def begin() -> pd.DataFrame:
    """What filters can offer; ends the page where there is nothing at all."""
    if data.publication() is None:
        results_page.show_empty_state()
    options = explore_data.options()
    if options.empty:
        results_page.show_empty_state()
    return options


def show_filters(options: pd.DataFrame) -> dict[str, Sequence[str]]:
    """The widgets that narrow, and what they say, by parameter."""
    newest = _newest()
    found: dict[str, Sequence[str]] = {}
    with st.expander("Which runs", icon=":material/filter_alt:", expanded=True), st.grid(_COLUMNS, gap="small"):
        found[params.SLICED["study"].key] = _choose_studies(options, newest)
        for name, param in params.SLICED.items():
            if name != "study":
                found[param.key] = _choose_values(options, name, param)
        found[params.VALIDITY.key] = [params.choose(params.VALIDITY, choices(params.VALIDITY, "Line"))]
        for param in (params.BEGUN_FROM, params.BEGUN_TO):
            day = params.choose_day(param)
            found[param.key] = [] if day is None else [day.isoformat()]
    params.say_missing(*params.SLICED.values(), params.VALIDITY, params.BEGUN_FROM, params.BEGUN_TO)
    return {key: chosen for key, chosen in found.items() if chosen}


def _newest() -> str:
    studies = data.studies_with_results()
    if studies.empty:
        return next(iter(BESIDE))
    first = studies.iloc[0]
    return params.job_label(first["study_name"], first["job_id"])


def _choose_studies(options: pd.DataFrame, newest: str) -> Sequence[str]:
    there = options[options["dimension"] == "study"].sort_values("begun", ascending=False, na_position="last")
    origins = set(options.loc[options["dimension"] == "origin", "value"])
    beside = [name for name, origin in BESIDE.items() if origin in origins]
    return params.choose_many(
        params.SLICED["study"],
        [EVERY_STUDY, *beside, *there["value"]],
        first=[newest],
        help_text="“everything published” puts what others published beside the studies chosen here",
        placeholder=EVERY_STUDY,
        on_change=_studies_changed,
    ) or [EVERY_STUDY]


def _studies_changed(param: params.Param) -> None:
    """The link always says which studies: none is every one, and one that is chosen then is chosen alone."""
    chosen = st.session_state[param.key]
    if not chosen or chosen[-1] == EVERY_STUDY:
        st.session_state[param.key] = [EVERY_STUDY]
    elif EVERY_STUDY in chosen:
        st.session_state[param.key] = [each for each in chosen if each != EVERY_STUDY]
    params.forget_missing(param)


def _choose_values(options: pd.DataFrame, name: str, param: params.Param) -> Sequence[str]:
    """A filter of a single value filters nothing, and is not shown."""
    there = options[options["dimension"] == name]
    values = sorted(there["value"], key=natural)
    runs = dict(zip(there["value"], there["runs"], strict=True))
    told = " · ".join(f"{literal(value)}: {runs[value]:,}" for value in values[:_MOST_TOLD])
    more = f" and {len(values) - _MOST_TOLD} more" if len(values) > _MOST_TOLD else ""
    return params.choose_many(param, values, help_text=f"Runs: {told}{more}", show=len(values) > 1)


def show_choices() -> tuple[Mark, dict[str, Sequence[str]]]:
    """How it is drawn: the mark, and the choices that this mark has."""
    columns = st.columns(5)
    with columns[0]:
        chosen = params.choose(params.MARK, choices(params.MARK, "Line"))
    mark = next(each for each in MARKS if each == chosen)
    found: dict[str, Sequence[str]] = {params.MARK.key: [mark]}
    for column, param in zip(columns[1:], USES[mark], strict=False):
        with column:
            found[param.key] = [params.choose(param, choices(param, mark))]
    params.say_missing(params.MARK, *USES[mark])
    return mark, found


def show_count(options: pd.DataFrame, shown: Shown) -> None:
    """How many runs of how many, and what must be known about them."""
    total = int(options.loc[options["dimension"] == "origin", "runs"].sum())
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"**{len(shown.runs):,}** of {count(total, 'completed run')} here{_origins(shown.runs)}.", width="content"
        )
        st.button("Reset", icon=":material/restart_alt:", on_click=_reset, type="tertiary")
    for sentence in shown.said:
        st.caption(f":material/info: {literal(sentence)}")


def _origins(runs: pd.DataFrame) -> str:
    """What is not measured here, with its sources."""
    parts = []
    for origin in ("imported", "published"):
        there = runs[runs["origin"] == origin]
        if len(there):
            parts.append(f"{len(there):,} {origin} ({literal(', '.join(sorted(set(there['source']))))}), drawn hollow")
    return "" if not parts else ", of which " + " and ".join(parts)


def _reset() -> None:
    values: dict[params.Param, object] = {param: [] for param in params.SLICED.values()}
    values[params.SLICED["study"]] = [_newest()]
    values |= {params.BEGUN_FROM: None, params.BEGUN_TO: None}
    for param in (params.MARK, params.VALIDITY, *{param for uses in USES.values() for param in uses}):
        values[param] = choices(param, "Line")[0]
    params.reset(values)
    st.session_state.pop(_CHOSEN, None)


def show_nothing(view: Asked) -> None:
    """Which filter is to blame."""
    with st.container(border=True, horizontal_alignment="center"):
        st.subheader("No run matches", anchor=False, text_alignment="center")
        blamed = explore_data.to_blame(view.filters)
        if blamed:
            words = "; ".join(f"without {_named(name)}: {count(runs, 'run')}" for name, runs in blamed)
            st.markdown(f"One filter is to blame. {words[0].upper()}{words[1:]}.", text_alignment="center")
        else:
            st.markdown("No single filter is to blame: take away two, or reset them.", text_alignment="center")
        st.button(
            "Reset the filters", icon=":material/restart_alt:", on_click=_reset, type="primary", key="reset-nothing"
        )


def _named(name: str) -> str:
    words = {"from": "the first day", "to": "the last day", "validity": "the validity"}
    return words.get(name) or f"the filter {_LABELS[name]}"


def show_figure(shown: Shown, view: View) -> None:
    if shown.figure is None:
        st.info("Nothing to draw: choose another number, or other runs.", icon=":material/show_chart:")
        return
    mode = drawing.mode()
    drawing.show_figures([shown.figure], mode, view, choose=_choose)
    chosen = shown.runs[shown.runs["run_id"] == st.session_state.get(_CHOSEN)]
    if len(chosen):
        _show_chosen(chosen.iloc[0])
    elif shown.groups is None and len(shown.figure.rows):
        st.caption(":material/ads_click: Click a point to go to its run; the table below leads there too.")


def _choose(run_id: str | None) -> None:
    st.session_state[_CHOSEN] = run_id


def _show_chosen(run: pd.Series) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        where = ", ".join(run[name] for name in ("arm", "dataset", "category", "load") if run[name] != "unknown")
        rate = run["output_tok_per_s"]
        speed = "" if pd.isna(rate) else f": {number(rate)} tok/s"
        st.markdown(f"**{literal(where)}**{literal(speed)} :gray[{literal(run['source'])}]", width="content")
        if run["origin"] == "published":
            query = {params.SOURCE.key: run["source"]}
            st.page_link("views/others.py", label="Open its source", icon=":material/groups:", query_params=query)
        else:
            query = {params.JOB.key: run["job_id"], params.RUN.key: run["run_id"]}
            st.page_link("views/run.py", label="Open this run", icon=":material/timeline:", query_params=query)


def show_tables(shown: Shown, asked: Asked, view: View) -> None:
    runs = explore_tables.runs(shown.runs, asked)
    config, title = explore_tables.run_config(asked), f"Runs ({len(runs):,})"
    if shown.groups is None:
        st.markdown(f"**{title}**")
        drawing.show_table(runs, config, "Runs of this slice", view, "runs")
        return
    groups_tab, runs_tab = st.tabs([f"Groups ({len(shown.groups):,})", title])
    with groups_tab:
        groups = explore_tables.groups(shown.groups)
        drawing.show_table(groups, explore_tables.group_config(asked), "Percentiles of each group", view, "groups")
    with runs_tab:
        drawing.show_table(runs, config, "Runs of this slice", view, "runs")


def parameters_of(chosen: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(values) for key, values in chosen.items() if values}
