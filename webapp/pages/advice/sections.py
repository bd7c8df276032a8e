"""The parts of the Advice page: the verdicts, what each stands on, and what to measure next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import streamlit as st

from jobs import queue
from lab.advice import FIRST_GAMMA, Advice, Reason
from lab.errors import UserError
from webapp.pages.advice import data as advice_data
from webapp.pages.advice import figures as advice_figures
from webapp.pages.advice import rows as advice_rows
from webapp.pages.advice import tables
from webapp.pages.advice.data import Found
from webapp.pages.submit.start import FROM_JOB, Start
from webapp.shared import published_data, study_picker, url_params, url_widgets
from webapp.shared.cards import Card, show_cards
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.page_files import page_file
from webapp.shared.tables import show_table
from webapp.shared.text import count, literal, span, times
from webapp.shared.url_params import View
from webapp.shared.url_widgets import bound

_ICONS = {
    "enable": ":green[:material/check_circle:]",
    "do not enable": ":orange[:material/do_not_disturb_on:]",
    "measure this next": ":blue[:material/experiment:]",
}
_COLOURS = {"measured": "green", "expected": "blue", "rule of thumb": "gray"}
_MOST_RUNS = 8
#: Cards of workloads beside each other, and pixels that one needs.
_MOST_COLUMNS, _LEAST_WIDTH = 3, 400


def choose() -> dict[str, Sequence[str]]:
    """The study, and the cost of drafting. Raises UserError for a cost that a link gives and that is none."""
    study, cost = st.columns([3.2, 1])
    with study:
        job_id = study_picker.choose_study()
    if url_params.DRAFT_COST not in st.session_state:
        advice_figures.draft_cost({url_params.DRAFT_COST: st.query_params.get_all(url_params.DRAFT_COST)})
    with cost:
        told = st.number_input(
            "Draft cost",
            min_value=0.0,
            value=None,
            step=0.01,
            format="%.3f",
            placeholder="as measured",
            **bound(url_params.DRAFT_COST),
            help="Time of a draft step over a target step, to predict by. Empty: what each arm shows at its least "
            "concurrency.",
        )
    url_widgets.say_missing(url_params.JOB)
    asked: dict[str, Sequence[str]] = {url_params.JOB.key: (job_id,)}
    return asked if told is None else asked | {url_params.DRAFT_COST: (f"{told:g}",)}


def show_nothing(found: Found) -> None:
    """Where no arm speculates there is nothing to advise but to begin. Ends the page then."""
    if not found.advice:
        st.info(
            f"No arm of this study speculates: measure one with {FIRST_GAMMA} drafted tokens next (rule of thumb).",
            icon=":material/experiment:",
        )
        st.page_link(page_file("submit"), label="Describe a study", icon=":material/add_circle:")
        st.stop()


def show_summary(found: Found) -> None:
    rows = advice_rows.verdicts(found.advice, found.measured)
    told = rows["action"].value_counts()
    places = f"of {count(len(rows), 'workload and load', 'workloads and loads')}"
    best = rows[rows["action"] == "enable"].nlargest(1, "speedup")
    cards = [Card(name.capitalize(), f"{told.get(name, 0)}", places) for name in tables.SIGNS]
    for row in best.to_dict("records"):
        bounds = f" ({span(row['low'], row['high'])})" if row["low"] == row["low"] else ""
        where = f"{row['arm']} with k = {row['k']:.0f} on {row['workload']}, {row['pattern']}{bounds}"
        cards.append(Card("Greatest sure speed-up", times(row["speedup"]), where))
    show_cards(cards)


def show_verdicts(found: Found, job_id: str) -> None:
    """A card a workload, a line a load, which opens to what the verdict stands on."""
    st.caption(
        "**Measured** lines stand on this study's valid runs, **expected** ones on theory, **rules of thumb** on "
        "published practice. Rules never overrule a measurement."
    )
    with st.grid(_MOST_COLUMNS, min_column_width=_LEAST_WIDTH, gap="small"):
        for workload, places in groupby(found.advice, key=lambda each: each.workload):
            with st.container(border=True, gap="xsmall", height="stretch"):
                st.markdown(f"**{literal(workload)}**")
                for each in places:
                    with st.expander(_title(each), expanded=each is found.advice[0]):
                        for line in each.reasons:
                            st.markdown(_line(line, job_id))


def _title(each: Advice) -> str:
    """`c4-n8: enable draft with k = 3`."""
    which = f": {literal(each.arm)} with k = {each.gamma}" if each.arm else ""
    where = f"{literal(each.pattern)} :gray[(concurrency {each.concurrency})]"
    return f"{_ICONS[each.action]} {where} **{each.action}{which}**"


def _line(line: Reason, job_id: str) -> str:
    runs = list(dict.fromkeys(line.run_ids))
    links = " ".join(f"[{place}](run?job={job_id}&run={run})" for place, run in enumerate(runs[:_MOST_RUNS], start=1))
    more = f" and {len(runs) - _MOST_RUNS} more" if len(runs) > _MOST_RUNS else ""
    stands = f" :gray[:small[runs {links}{more}]]" if runs else ""
    return f":{_COLOURS[line.basis]}-badge[{line.basis}] {literal(line.text)}{stands}"


def show_next(found: Found, job_id: str) -> None:
    """What is open, and a study that would decide it."""
    st.subheader("What to measure next", anchor=False)
    open_ = [each for each in found.advice if each.action == "measure this next"]
    if not open_:
        st.caption("Every workload and load is decided. The rules of thumb below say what else may be worth a try.")
        return
    try:
        study = queue.job(published_data.engine(), job_id).study
    except UserError:
        st.caption(f"{count(len(open_), 'verdict is', 'verdicts are')} open. This study was submitted elsewhere.")
        return
    proposed = advice_data.next_study_of(study, job_id)
    if proposed is None:
        st.caption(f"{count(len(open_), 'verdict is', 'verdicts are')} open; the study names its parts otherwise now.")
        return
    takes = published_data.forecast(proposed)
    st.markdown(
        f"{count(len(open_), 'verdict is', 'verdicts are')} open. A study of "
        f"{literal(', '.join(arm.name for arm in proposed.arms))} on "
        f"{count(len(proposed.workloads), 'workload')} and {count(len(proposed.loads), 'load')} with "
        f"{count(proposed.repeats, 'repeat')} would probably decide: {count(takes.runs, 'run')}. "
        "How many it takes is an even chance, not a promise."
    )
    st.page_link(
        page_file("submit"),
        label="Fill in the Submit page with this study",
        icon=":material/experiment:",
        query_params=Start(FROM_JOB, job_id, decides=True).query,
    )


def show_tables(found: Found, view: View) -> None:
    def show_verdicts() -> None:
        rows = tables.verdicts(advice_rows.verdicts(found.advice, found.measured))
        show_table(rows, tables.VERDICTS, "The verdict of each workload and load", view, "advice")

    def show_runs() -> None:
        title = "Each run beside its prediction"
        show_table(advice_rows.runs(found.runs), tables.RUNS, title, view, "predictions")

    def show_checklist() -> None:
        rows = advice_rows.checklist(found.advice)
        if rows.empty:
            st.caption("No rule of thumb says anything about these runs.")
        else:
            show_table(rows, tables.CHECKLIST, "Rules of thumb", view, "checklist")

    url_widgets.show_tabs(
        url_params.ADVICE_TAB,
        {"Verdicts": show_verdicts, "Predicted and measured": show_runs, "Practice checklist": show_checklist},
    )


def show_figure(asked: Mapping[str, Sequence[str]], view: View) -> None:
    mode = colour_mode()
    figures = advice_figures.figures(asked, mode)
    if not figures:
        st.caption("Nothing is predicted: the runs do not tell the acceptance of their first position.")
        return
    show_figures(figures, mode, view)
