"""Explore: any slice of the runs, drawn as the reader chooses, with the same rows as a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from lab.metrics.catalogue import BY_NAME
from warehouse.queries.comparing.study_cells import MOST_RUNS
from warehouse.queries.slices import GROUPED, TAG
from webapp.charts.explore.axes import DIMENSIONS, LATENCIES, NUMBERS, OF_REQUESTS, Axis, natural
from webapp.charts.explore.runs import MOST_POINTS, PERCENTILES
from webapp.pages.explore import data as explore_data
from webapp.pages.explore import drawer, figures, filters
from webapp.pages.explore.figures import ALWAYS, NO_PRICE, Shown, within
from webapp.pages.explore.selection import Selection, parse
from webapp.shared import published_data, study_picker, url_params, url_widgets
from webapp.shared.errors import show_user_errors
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import Column, columns, declared, of_metric, show_table
from webapp.shared.text import count, literal
from webapp.shared.url_params import View, page_file

_CHOSEN = "explore-chosen"
#: Runs whose requests are read for the slowest prompts.
_MOST_RUNS = 200
_PROMPTS = columns(
    "category",
    pinned="",
    prompt_begins=Column("Prompt begins", width="large"),
    requests=Column("Requests", "%,d", width=80),
    runs=Column("Runs", "%,d", width=60),
    e2e_ms=Column("E2E (ms)", "%,.0f", "Median over its requests"),
    ttft_ms=Column("TTFT (ms)", "%,.1f", "Median over its requests"),
    tpot_ms=Column("TPOT (ms)", "%,.2f", "Median over its requests"),
    most_ms=Column("Longest E2E (ms)", "%,.0f"),
    prompt_id=Column("Prompt id", help="The digest of the prompt: the same in every run that sent it"),
)
_LABELS = {axis.column: axis.label for axis in (*DIMENSIONS, *OF_REQUESTS)} | {TAG: "Tag of the study"}
_FIRST = ("arm", "run_id", "dataset", "category", "load", "concurrency", "repeat")
_LAST = ("method", "draft_model", "k", "request_rate", "engine", "hardware", "target", "study", "origin", "source")
_ORIGINS = ["measured", "imported", "published"]
#: Columns that stay even if empty, because links are made from them.
_LINKED = ("run_id", "job_id")
_AXES = {axis.column: axis for axis in (*NUMBERS, *DIMENSIONS, *OF_REQUESTS, *LATENCIES)}


def show_page() -> None:
    st.title("Explore", anchor=False)
    with show_user_errors():
        options = begin()
        drawn = filters.choose_drawing()
        view = View("explore", {**filters.choose_runs(options), **drawn})
        slice_ = parse(view.parameters)
        shown = figures.shown(slice_, colour_mode())

    show_count(options, shown, slice_)
    if shown.runs.empty:
        show_nothing(slice_)
    else:
        show_figure(shown, slice_, view)
        show_tables(shown, slice_, view)


def begin() -> pd.DataFrame:
    """Return the values that filters offer. Without runs, shows the empty state and ends the page."""
    if published_data.publication() is None:
        study_picker.show_empty_state()
    options = explore_data.options()
    if options.empty:
        study_picker.show_empty_state()
    if published_data.studies_with_results().empty:
        st.info(
            "Nothing has been measured here yet; below are published results. Your own runs appear "
            "seconds after they end.",
            icon=":material/groups:",
        )
    return options


def show_count(options: pd.DataFrame, shown: Shown, selection: Selection) -> None:
    """Show how many runs match, by which filters, and notes on what is drawn."""
    of_origin = options[options["dimension"] == "origin"].set_index("value")["runs"]
    total = int(of_origin.sum())
    each = [f"{of_origin[origin]:,} {origin}" for origin in _ORIGINS if origin in of_origin]
    split = f" ({', '.join(each)})" if len(each) > 1 else ""
    filters = [_named(name) for name in selection.filters.active if name not in ("study", "validity")]
    narrowed = f" Filtered by {', '.join(filters)}." if filters else ""
    matching = 0 if shown.runs.empty else shown.runs["run_id"].nunique()  # a run has a row for each turn or context
    st.markdown(f"**{matching:,}** of {count(total, 'completed run')}{split}{_origins(shown.runs)}.{narrowed}")
    for sentence in shown.notes:
        st.caption(f":material/info: {literal(sentence)}")
        if NO_PRICE in sentence:
            st.page_link(page_file("cost"), label="Set an hourly price", icon=":material/payments:")


def _origins(runs: pd.DataFrame) -> str:
    """Describe the runs that were not measured here, with their sources."""
    parts = []
    for origin in ("imported", "published"):
        of_origin = runs[runs["origin"] == origin]
        if len(of_origin):
            parts.append(
                f"{len(of_origin):,} {origin} ({literal(', '.join(sorted(set(of_origin['source']))))}), drawn hollow"
            )
    return "" if not parts else ", of which " + " and ".join(parts)


def show_nothing(view: Selection) -> None:
    """Show which filters exclude every run, each with a button that drops it."""
    blamed = dict(explore_data.filters_excluding_everything(view.filters))
    with st.container(border=True, horizontal_alignment="center"):
        st.subheader("No run matches", anchor=False, text_alignment="center")
        for name in blamed or view.filters.active:
            st.markdown(literal(_filter_words(name, view)), text_alignment="center")
        if not blamed:
            st.caption("No single filter excludes all runs: drop two of them.", text_alignment="center")
        with st.container(horizontal=True, horizontal_alignment="center"):
            for name in blamed or view.filters.active:
                runs = f" ({count(blamed[name], 'run')})" if name in blamed else ""
                st.button(
                    f"Drop the filter on {_named(name)}{runs}",
                    icon=":material/filter_alt_off:",
                    on_click=filters.drop,
                    args=(name,),
                    key=f"drop-{name}",
                )
            st.button("Reset the filters", icon=":material/restart_alt:", on_click=filters.reset, key="reset-nothing")


def _filter_words(name: str, view: Selection) -> str:
    """Describe a filter: `Draft model: one of a, b`."""
    day = {"from": view.filters.begun_from, "to": view.filters.begun_to}
    if name in day:
        return f"Started on or {'after' if name == 'from' else 'before'} {day[name]}"
    if name == "validity":
        return f"Validity: {view.filters.validity}"
    values = dict(view.filters.chosen)[name]
    return f"{_LABELS[name]}: {'one of ' if len(values) > 1 else ''}{', '.join(values)}"


def _named(name: str) -> str:
    return {"from": "first day", "to": "last day", "validity": "validity"}.get(name) or within(_LABELS[name])


def show_figure(shown: Shown, selection: Selection, view: View) -> None:
    if shown.figure is None:
        if not any(NO_PRICE in note for note in shown.notes):  # which says what to do
            st.info(why_nothing(selection), icon=":material/show_chart:")
        return
    mode = colour_mode()
    show_figures([shown.figure], mode, view, choose=_choose)
    chosen = shown.runs[shown.runs["run_id"] == st.session_state.pop(_CHOSEN, None)]
    if len(chosen):
        drawer.show(chosen.iloc[0])
    if selection.has_points and len(shown.figure.rows) <= MOST_POINTS:
        st.caption(":material/ads_click: Click a point to see its run; the table below links to all runs.")


def why_nothing(selection: Selection) -> str:
    """Say why none of the matching runs can be drawn."""
    if selection.of_requests and selection.metric.column not in GROUPED:
        steps = " and ".join(selection.of_requests)
        return (
            f"{selection.metric.label} is known for whole runs only, not by {steps}: choose a latency (mean, p50, "
            "p90, p95 or p99), acceptance length or acceptance rate as the metric."
        )
    return "Nothing to draw: choose another metric or other runs."


def _choose(run_id: str | None) -> None:
    st.session_state[_CHOSEN] = run_id


def show_tables(shown: Shown, selection: Selection, view: View) -> None:
    def show_runs() -> None:
        runs = run_table(shown.runs, selection)
        config = run_config(selection) | dict.fromkeys(implied(runs))
        title = "Runs of this slice"
        show_comparing(runs.iloc[show_table(runs, config, title, view, "runs", same_once=True, has_boxes=True)])

    def show_groups(groups: pd.DataFrame) -> None:
        show_table(group_table(groups), group_config(selection), "Percentiles of each group", view, "groups")

    by = f" by {' and '.join(selection.of_requests)}" if selection.of_requests else ""
    tabs: dict[str, Callable[[], None]] = {
        f"Runs{by}": show_runs,
        "Slowest prompts": partial(show_prompts, shown, view),
    }
    if shown.groups is not None:
        tabs = {"Groups": partial(show_groups, shown.groups), **tabs}
    url_widgets.show_tabs(url_params.EXPLORE_TAB, tabs)


def show_prompts(shown: Shown, view: View) -> None:
    """Show the prompts that took longest in the newest runs of the slice, with their first words."""
    measured = shown.runs.loc[shown.runs["origin"] != "published", "run_id"].drop_duplicates().tail(_MOST_RUNS)
    rows = explore_data.slowest_prompts(measured.tolist())
    if rows.empty:
        st.caption("No run of this slice has single requests.")
        return
    if rows["prompt_begins"].isna().all():
        st.caption("The texts of these prompts are not stored: the policy of this lab keeps their digests only.")
    st.caption(f"By the median E2E latency over {count(len(measured), 'run')}, the newest of the slice.")
    show_table(rows, _PROMPTS, "The slowest prompts", view, "prompts")


def show_comparing(chosen: pd.DataFrame) -> None:
    """Offer to compare the chosen rows' runs; those of a single study in pairs, with all runs of the study."""
    if chosen.empty:
        st.caption(":material/check_box: Choose runs by the boxes on their left to compare them.")
        return
    ours = chosen[chosen["origin"] != "published"]
    run_ids, jobs = list(dict.fromkeys(ours["run_id"])), list(dict.fromkeys(ours["job_id"]))
    query = {url_params.JOB.key: jobs[:1]}
    if len(jobs) > 1:
        query |= {url_params.WITH.key: jobs[1:], url_params.RUNS.key: run_ids}
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button(
            "Compare the arms of this study" if len(jobs) == 1 else f"Compare the {count(len(run_ids), 'chosen run')}",
            icon=":material/compare_arrows:",
            type="primary",
            disabled=not jobs or len(run_ids) > MOST_RUNS,
        ):
            st.switch_page(page_file("compare"), query_params=query)
        if len(ours) < len(chosen):
            st.caption("Published runs enter no comparison.", width="content")
        if len(run_ids) > MOST_RUNS:
            st.caption(f"At most {MOST_RUNS} runs can be chosen one by one.", width="content")
        elif len(jobs) == 1:
            words = "All rows are of one study: its arms are compared in pairs, with all of their runs."
            st.caption(words, width="content")


def run_table(runs: pd.DataFrame, view: Selection) -> pd.DataFrame:
    """Return the table of runs: those measured here first, the chart's numbers before others, no empty columns."""
    numbers = [name for name in dict.fromkeys([*view.numbers, *ALWAYS]) if name in runs]
    wanted = [*_FIRST, *view.of_requests, *numbers, "is_valid", *_LAST, "started_at", "job_id"]
    table = runs[[name for name in wanted if name in runs]]
    table = table.sort_values("origin", key=lambda origins: origins.map(_ORIGINS.index), kind="stable")
    axes = _AXES | {view.metric.column: view.metric}
    table = table.assign(**{name: table[name] * axes[name].factor for name in numbers})
    return _counted(table).drop(columns=[name for name in table if name not in _LINKED and table[name].isna().all()])


def implied(runs: pd.DataFrame) -> list[str]:
    """Return redundant columns: method, draft and k where the arm implies them, load where concurrency does."""
    by = {"arm": ("method", "draft_model", "k"), "concurrency": ("load",)}
    return [
        name
        for known, names in by.items()
        for name in names
        if {known, name} <= set(runs.columns) and runs.groupby(known)[name].nunique(dropna=False).max() == 1
    ]


def _counted(table: pd.DataFrame) -> pd.DataFrame:
    """Numeric dimensions as numbers, null where unknown."""
    counts = [name for name in ("concurrency", "k", "turn", "context") if name in table]
    return table.assign(**{name: pd.to_numeric(table[name], errors="coerce") for name in counts})


def run_config(view: Selection) -> dict[str, Any]:
    axes = _AXES | {view.metric.column: view.metric}
    steps = {axis.column: Column(axis.label, "%,d") for axis in OF_REQUESTS}
    numbers = {name: _number(axes[name]) for name in (*view.numbers, *ALWAYS)}
    shown: dict[str, Column] = _words() | steps | numbers
    return columns("repeat", "is_valid", pinned="arm", **shown, source={"help": "Where the run comes from"}) | {
        "run_id": Column("Run", width=60, link_text="open").config(pinned=True),
        "job_id": None,
        "started_at": None,  # the run's page has it
    }


def group_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the groups sorted by their dimensions, numbers by size."""
    every = (*DIMENSIONS, *OF_REQUESTS)
    rest = [axis.column for axis in every if axis.column in runs and axis.column != "origin"]
    table = runs.sort_values(rest, key=lambda values: values.map(natural))
    return _counted(table[[*rest, "origin", "runs", "values", *(f"p{q}" for q in PERCENTILES)]])


def group_config(view: Selection) -> dict[str, Any]:
    latency = view.latency.column.upper()
    return columns(
        "runs",
        pinned="arm",
        **_words(),
        values=Column("Values", "%,d", "Number of requests, or of their tokens or chunks"),
        **{f"p{q}": Column(f"{latency} p{q} (ms)", "%,.4g") for q in PERCENTILES},
    )


def _words() -> dict[str, Column]:
    dimensions = {axis.column: Column(axis.label) for axis in (*DIMENSIONS, *OF_REQUESTS)}
    return dimensions | {name: declared(name) for name in ("arm", "concurrency", "k")}


def _number(axis: Axis) -> Column:
    if (metric := BY_NAME.get(axis.column)) is not None:
        return of_metric(metric)
    return Column(axis.title, "%,.4g", axis.about or None)


if __name__ == "__main__":
    show_page()
