"""The parts of the Compare page: what is compared, how it comes out in one line an arm, and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from lab.comparison.agreement import Agreement
from webapp import (
    choosing,
    compare_choice,
    compare_data,
    compare_figures,
    compare_measures,
    compare_rows,
    compare_tables,
    data,
    drawing,
    open_tabs,
    params,
    results_page,
    verdict_tables,
)
from webapp.about import View
from webapp.charts.heat import MARKS
from webapp.compare_choice import Choice
from webapp.headline import Card
from webapp.link import bound
from webapp.text import count, literal, span, times

Parameters = Mapping[str, Sequence[str]]
_MOST_CARDS = 6


def choose() -> dict[str, Sequence[str]]:
    """Study, baseline, candidates and metric. Raises UserError where no arm can be compared."""
    study, baseline, metric = st.columns([2.4, 1.4, 1.4])
    with study:
        label = choosing.choose(params.JOB, results_page.labels(data.studies_with_results()))
    job_id = params.job_id_of(label)
    with baseline:
        base = choosing.choose(
            params.BASELINE, compare_choice.baselines(job_id), help_text="Any arm may be what the others are held to"
        )
    with metric:
        measure = choosing.choose(params.METRIC, list(compare_measures.BY_LABEL))
    found = data.compared(job_id, compare_measures.BY_LABEL[measure].column, base)
    candidates, rows = st.columns([3.8, 1.4])
    with candidates:
        chosen = choosing.choose_many(params.CANDIDATES, compare_choice.candidates(found), placeholder="All")
    with rows:
        heat_rows = choosing.choose(params.HEAT_ROWS, list(compare_choice.HEAT_ROWS))
    choosing.say_missing(params.JOB, params.BASELINE, params.METRIC, params.CANDIDATES, params.HEAT_ROWS)
    keys = (params.JOB, params.BASELINE, params.METRIC, params.HEAT_ROWS)
    asked: dict[str, Sequence[str]] = dict(
        zip((param.key for param in keys), ((job_id,), (base,), (measure,), (heat_rows,)), strict=True)
    )
    return asked | ({params.CANDIDATES.key: chosen} if chosen else {})


def show_figures(keys: Sequence[str], asked: Parameters, view: View) -> None:
    """One after the other, so that the first is seen while the others are made."""
    mode = drawing.mode()
    for key in keys:
        if (made := compare_figures.figure(key, asked, mode)) is not None:
            drawing.show_figures([made], mode, view)


def choose_place(choice: Choice) -> dict[str, Sequence[str]]:
    """One workload and one load, where there are several."""
    workloads = compare_choice.workloads(choice.found, choice.candidates)
    workload_column, load_column, _ = st.columns([2, 1.2, 2])
    with workload_column:
        workload = choosing.choose(params.AT_WORKLOAD, workloads)
    with load_column:
        load = choosing.choose(params.AT_LOAD, compare_choice.loads(choice.found, choice.candidates, workload))
    choosing.say_missing(params.AT_WORKLOAD, params.AT_LOAD)
    return {params.AT_WORKLOAD.key: (workload,), params.AT_LOAD.key: (load,)}


def show_cards(choice: Choice) -> None:
    """Each candidate over all its cells: the geometric mean, its interval, and how the cells come out."""
    tables = compare_data.tables(choice.job_id, choice.found, choice.heat_rows)
    by_arm = {each.arm: each for each in tables}
    cards = []
    for arm in choice.candidates:
        ratio = by_arm[arm].sweep.comparison.ratio if arm in by_arm else None
        mean = by_arm[arm].table.gmean if arm in by_arm else None
        bounds = "" if ratio is None or ratio.low is None or ratio.high is None else f" ({span(ratio.low, ratio.high)})"
        word = by_arm[arm].sweep.verdict.word if arm in by_arm else "not enough data"
        cards.append(Card(arm, times(mean), f"{MARKS[word]} {word} over all cells{bounds}. {_tally(choice, arm)}"))
    drawing.show_cards(cards[:_MOST_CARDS])
    more = len(cards) - _MOST_CARDS
    besides = f" {count(more, 'more arm')} in the tables below." if more > 0 else ""
    st.caption(
        f"{literal(choice.measure.label)} over {literal(choice.found.baseline)}, geometric mean; intervals hold the "
        f"truth 95 times in 100, verdicts are corrected for the whole study (Holm).{besides}"
    )


def _tally(choice: Choice, arm: str) -> str:
    """`3 cells ▲, 1 =`."""
    words = [pair.verdict.word for pair in choice.pairs if pair.candidate.arm == arm]
    counted = [f"{mark} {words.count(word)}" for word, mark in MARKS.items() if word in words]
    return f"{count(len(words), 'cell')}: {', '.join(counted)}"


def show_circumstances(choice: Choice) -> None:
    job = results_page.job_state(choice.job_id)
    results_page.show_circumstances(data.results(choice.job_id), job, "the tab Checks of the Results page")


def say_what_is_missing(choice: Choice) -> None:
    """Why there is no figure, or no interval."""
    known = [pair for pair in choice.pairs if pair.comparison.ratio is not None]
    label = literal(choice.measure.label)
    if not known:
        st.info(
            f"Nothing to compare by {label}: {literal(choice.found.baseline)} or the candidates have none. Choose "
            "another baseline or metric.",
            icon=":material/info:",
        )
    elif all(pair.comparison.ratio is None or pair.comparison.ratio.low is None for pair in known):
        st.info(
            "One repeat cannot show how much runs differ, so there are no intervals and no verdicts yet: set "
            "repeats = 3 or more.",
            icon=":material/info:",
        )


def show_tables(choice: Choice, view: View) -> None:
    open_tabs.show(
        params.COMPARE_TAB,
        {
            "Verdicts": lambda: _show_verdicts(choice, view),
            "Break-even": lambda: _show_crossings(choice, view),
            "Percentiles": lambda: _show_percentiles(choice, view),
        },
    )


def _show_verdicts(choice: Choice, view: View) -> None:
    shown = verdict_tables.verdicts(choice.found, _agreements(choice), None)
    chosen = shown[shown["arm"].isin(choice.candidates)] if not shown.empty else shown
    drawing.show_table(chosen, verdict_tables.verdict_config(), "Whether each arm is faster", view, "verdicts")


def _show_crossings(choice: Choice, view: View) -> None:
    rows = compare_rows.crossings(compare_figures.evens(choice))
    if rows.empty:
        st.caption("Break-even needs one load at each of several concurrencies.")
    else:
        shown = compare_tables.crossings(rows)
        drawing.show_table(shown, compare_tables.CROSSINGS, "Where each arm pays", view, "crossings")


def _show_percentiles(choice: Choice, view: View) -> None:
    rows = compare_rows.percentiles(compare_data.histograms(compare_data.runs_at(choice.here)))
    if rows.empty:
        st.caption("These runs have no histograms of latencies.")
    else:
        title = f"Latency percentiles, {choice.workload}, {choice.load}"
        drawing.show_table(compare_tables.percentiles(rows), compare_tables.PERCENTILES, title, view, "percentiles")


def _agreements(choice: Choice) -> list[Agreement] | None:
    """At once where they are few, else when the reader asks for them."""
    found = data.agreements(choice.job_id, choice.measure.column, choice.found)
    if found is not None:
        return found
    outputs = data.outputs_of(choice.job_id)
    wanted = st.toggle(
        f"Tell beside each verdict whether the outputs are the same ({outputs:,} outputs to read)",
        **bound(params.ALL_OUTPUTS),
    )
    if not wanted:
        return None
    with st.spinner("Reading the outputs"):
        return data.agreements(choice.job_id, choice.measure.column, choice.found, however_many=True)
