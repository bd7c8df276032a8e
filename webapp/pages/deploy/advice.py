"""The advice of one study: where to enable speculation, with which draft, why, and what to measure next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import streamlit as st

from lab.advice.advise import FIRST_GAMMA, Advice, Reason, arm_with_k
from lab.comparison import surface
from lab.metrics.number_format import bounds, times
from webapp.pages.deploy import advice_figures, advice_tables
from webapp.pages.deploy.advice_data import StudyAdvice, by_context, study_advice
from webapp.shared import url_params, url_widgets
from webapp.shared.cards import Card, show_cards
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import show_table
from webapp.shared.text import count, literal
from webapp.shared.url_params import View, page_file

_ICONS = {
    "enable": ":green[:material/check_circle:]",
    "do not enable": ":orange[:material/do_not_disturb_on:]",
    "measure this next": ":blue[:material/experiment:]",
}
_COLOURS = {"measured": "green", "expected": "blue", "rule of thumb": "gray"}
_MAX_RUN_LINKS = 8
#: Workload cards side by side, and the width in pixels that each needs.
_MAX_COLUMNS, _MIN_WIDTH = 3, 400
_FIELD_WIDTH = 205


def show(job_id: str) -> None:
    """Show where to enable speculation by this study, with which draft, and why. Raises UserError for an invalid draft
    cost.
    """
    parameters = choose(job_id)
    advice = study_advice(job_id, advice_figures.draft_cost(parameters))
    if not advice.advice:
        _show_without_speculation()
        return
    view = View("deploy", parameters)
    show_cards(cards(advice))
    show_contexts(job_id)
    show_verdicts(advice, job_id)
    mode = colour_mode()
    if drawn := advice_figures.figures(parameters, mode):
        show_figures(drawn, mode, view)
    else:
        st.caption("There are no predictions: the runs do not record the acceptance of the first position.")
    show_tables(advice, view)


def choose(job_id: str) -> dict[str, Sequence[str]]:
    """Choose the draft cost, as parameters of the link. Raises UserError for an invalid cost."""
    if url_params.DRAFT_COST not in st.session_state:
        advice_figures.draft_cost({url_params.DRAFT_COST: st.query_params.get_all(url_params.DRAFT_COST)})
        url_widgets.seed(url_params.DRAFT_COST, float, None)
    with st.container(width=_FIELD_WIDTH):
        entered = st.number_input(
            "Draft cost",
            min_value=0.0,
            value=None,
            step=0.01,
            format="%.3f",
            placeholder="as measured",
            key=url_params.DRAFT_COST,
            help="Time of a draft step relative to a target step, used for the predictions. Empty: as measured for "
            "each arm at its lowest concurrency.",
        )
    url_widgets.record(url_params.DRAFT_COST, None if entered is None else f"{entered:g}")
    parameters: dict[str, Sequence[str]] = {url_params.JOB.key: (job_id,)}
    return parameters if entered is None else parameters | {url_params.DRAFT_COST: (f"{entered:g}",)}


def _show_without_speculation() -> None:
    st.info(
        f"No speculating arm has a valid run beside the baseline: measure one with {FIRST_GAMMA} drafted tokens next "
        "(rule of thumb).",
        icon=":material/experiment:",
    )
    st.page_link(page_file("submit"), label="Describe a study", icon=":material/add_circle:")


def cards(advice: StudyAdvice) -> list[Card]:
    """Return cards: the number of verdicts of each kind, and the best speed-up among those to enable."""
    rows = advice_tables.verdicts(advice.advice, advice.measured)
    counts = rows["action"].value_counts()
    total = f"of {count(len(rows), 'workload and load', 'workloads and loads')}"
    summary = [Card(action.capitalize(), f"{counts.get(action, 0)}", total) for action in advice_tables.SIGNS]
    best = rows[rows["action"] == "enable"].nlargest(1, "speedup")
    for row in best.to_dict("records"):
        interval = f" {bounds(row['speedup'], row['low'], row['high'])}".rstrip()
        where = f"{arm_with_k(row['arm'], round(row['k']))} on {row['workload']}, {row['pattern']}{interval}"
        summary.append(Card("Best established speed-up", times(row["speedup"], row["low"], row["high"]), where))
    return summary


def show_contexts(job_id: str) -> None:
    """Show a sentence for each arm that was measured at several lengths of context."""
    for arm, found in by_context(job_id).items():
        st.markdown(
            f":material/straighten: **{literal(arm)}** by length of context, in time per token: "
            f"{surface.sentence(found)}."
        )


def show_verdicts(advice: StudyAdvice, job_id: str) -> None:
    """Show a card per workload with a line per load, which opens to show the reasons."""
    st.caption(
        "**Measured** reasons come from this study's valid runs, **expected** ones from theory, **rules of thumb** "
        "from published practice. A rule of thumb never overrules a measurement."
    )
    with st.grid(_MAX_COLUMNS, min_column_width=_MIN_WIDTH, gap="small"):
        for workload, cells in groupby(advice.advice, key=lambda verdict: verdict.workload):
            with st.container(border=True, gap="xsmall", height="stretch"):
                st.markdown(f"**{literal(workload)}**")
                for verdict in cells:
                    with st.expander(verdict_title(verdict), expanded=verdict is advice.advice[0]):
                        show_reasons(verdict.reasons, job_id)


def show_reasons(reasons: Sequence[Reason], job_id: str) -> None:
    """Show what was measured and what theory predicts; rules of thumb are folded away."""
    rules = [reason for reason in reasons if reason.basis == "rule of thumb"]
    for reason in reasons:
        if reason not in rules:
            st.markdown(reason_line(reason, job_id))
    if rules:
        with st.popover(count(len(rules), "rule of thumb", "rules of thumb"), type="tertiary"):
            for rule in rules:
                st.markdown(reason_line(rule, job_id))


def verdict_title(verdict: Advice) -> str:
    """Return `c4-n8 (concurrency 4) enable: draft (k = 3)` as Markdown."""
    which = f": {literal(arm_with_k(verdict.arm, verdict.gamma))}" if verdict.arm else ""
    where = f"{literal(verdict.pattern)} :gray[(concurrency {verdict.concurrency})]"
    return f"{_ICONS[verdict.action]} {where} **{verdict.action}{which}**"


def reason_line(reason: Reason, job_id: str) -> str:
    """Return the reason with its basis and links to its runs, as Markdown."""
    runs = list(dict.fromkeys(reason.run_ids))
    shown = enumerate(runs[:_MAX_RUN_LINKS], start=1)
    links = " ".join(f"[{number}](run?job={job_id}&run={run})" for number, run in shown)
    more = f" and {len(runs) - _MAX_RUN_LINKS} more" if len(runs) > _MAX_RUN_LINKS else ""
    evidence = f" :gray[:small[runs {links}{more}]]" if runs else ""
    return f":{_COLOURS[reason.basis]}-badge[{reason.basis}] {literal(reason.text)}{evidence}"


def show_tables(advice: StudyAdvice, view: View) -> None:
    def show_verdict_table() -> None:
        rows = advice_tables.verdicts(advice.advice, advice.measured)
        rows = rows.assign(action=rows["action"].map(advice_tables.SIGNS))
        show_table(rows, advice_tables.VERDICT_COLUMNS, "The verdict on each workload and load", view, "advice")

    def show_runs() -> None:
        rows = advice_tables.runs(advice.runs)
        show_table(rows, advice_tables.RUN_COLUMNS, "Each run with its prediction", view, "predictions")

    def show_checklist() -> None:
        rows, none = advice_tables.checklist(advice.advice), "No rule of thumb applies to these runs."
        show_table(rows, advice_tables.CHECKLIST_COLUMNS, "Rules of thumb", view, "checklist", if_empty=none)

    url_widgets.show_tabs(
        url_params.ADVICE_TAB,
        {"Verdicts": show_verdict_table, "Predicted and measured": show_runs, "Practice checklist": show_checklist},
    )
