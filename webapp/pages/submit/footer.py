"""The footer of the Submit page: the study's plan, its problems, and the button that submits it."""

from __future__ import annotations

import html
import time
from collections.abc import Sequence
from typing import TypedDict

import streamlit as st

from access.web import visitor
from jobs import queue
from jobs.known_models import advice
from jobs.table import MAX_PRIORITY
from lab.errors import StudyError
from lab.roles import Change
from lab.study import Study
from lab.study.duration import rough_duration
from lab.study.plan import repeats_of_a_launch
from webapp.pages.submit import form_options, inputs
from webapp.pages.submit.inputs import ShownProblem
from webapp.pages.submit.values import Problem
from webapp.shared import published_data, url_params
from webapp.shared.text import count, literal, sentence, sentence_html
from webapp.shared.url_params import page_file

#: Problems listed; the others are only counted.
_MAX_LISTED = 4
#: A second click on *Submit it once more* within this time is a double click.
_DOUBLE_CLICK_S = 3.0
_RECEIPT, _REFUSAL = "submit-receipt", "submit-refusal"


class Receipt(TypedDict, total=False):
    """The last study submitted in this session."""

    digest: str
    job_id: str
    name: str
    at: float


def show(study: Study | None, problems: Sequence[ShownProblem]) -> None:
    """Show the footer. `study` is None while it is invalid; a valid study may still have problems on this host."""
    receipt: Receipt = st.session_state.setdefault(_RECEIPT, Receipt())
    is_submitted = study is not None and receipt.get("digest") == study.digest()
    with st.bottom, st.container(key="submit-footer", gap="xsmall"):
        inputs.show_skip("submit", "Back to the arms", to="arms")
        with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
            with st.container(gap="xxsmall", width="stretch"):
                _show_plan(study)
                if is_submitted:
                    _show_receipt(receipt)
            if visitor.allowed_any(Change.SUBMIT):
                _show_submit(None if problems else study, receipt, is_submitted=is_submitted)
            else:
                st.caption("You can plan a study here; submitting it needs the submitter role.", width=260)
        if problems:
            _show_problems(problems)


def _show_plan(study: Study | None) -> None:
    if study is None:
        st.markdown("**The plan** :gray[appears once the study is valid]")
        return
    forecast = published_data.forecast(study)
    most = "at most " if study.until_decided else ""
    parts = [
        f"**{most}{count(forecast.launches, 'engine start')}**",
        f"**{most}{count(forecast.runs, 'run')}**",
        f"{most}{count(forecast.requests, 'request')}",
        f"about **{rough_duration(forecast.wall_s)}**",
    ]
    prospects = published_data.verdicts_forecast(study)
    decided = ""
    if prospects is not None:
        how = "roughly" if prospects.is_rough else "probably"
        parts.append(f"{how} **{prospects.as_is.decided:.0f} of {prospects.cells}** decided")
        decided = f" Verdicts: {prospects.sentence}, {prospects.basis}. {prospects.advice}".rstrip()
    st.markdown(" · ".join(parts), help=_counting(study))
    st.caption(literal(f"Time: {forecast.basis}.{decided}"))
    for advised in [] if published_data.settings().workers_elsewhere else advice(study):
        st.caption(f":material/info: {sentence(advised)}")
    if unknown := dict.fromkeys(what for _, what in form_options.unknown_in(study)):
        st.caption(literal(f"Will stay unknown: {'; '.join(unknown)}."))


def _counting(study: Study) -> str:
    """Explain how engine starts and runs are counted."""
    if study.tune is not None:
        return "Estimated: a tuning measures only settings that could still win"
    per_launch = repeats_of_a_launch(study.order, study.repeats_per_launch, study.repeats)
    starts = "one per arm and repeat" if per_launch == 1 else f"one per arm and {per_launch} repeats"
    if study.order == "fewest_launches":
        starts = "one per arm"
    return f"Engine starts: {starts}. Runs: arms × workloads × loads × repeats"


def _show_submit(study: Study | None, receipt: Receipt, *, is_submitted: bool) -> None:
    """Draw the button, which submits a study once, however often it is clicked; a menu submits it again.

    `study` is None while it has problems.
    """
    with st.container(horizontal=True, vertical_alignment="bottom", width="content", gap="small"):
        highest = MAX_PRIORITY if visitor.allowed_any(Change.ORDER) else 0
        help_text = "Higher priorities run first; with equal priority, submitters alternate"
        entered = st.number_input(
            "Priority", -MAX_PRIORITY, highest, 0, step=1, width=110, help=help_text, key="submit-priority"
        )
        priority = int(entered or 0)
        if study is not None and is_submitted:
            _show_again(study, receipt, priority)
        label, icon = ("Submitted", ":material/check:") if is_submitted else ("Submit study", ":material/send:")
        disabled = study is None or is_submitted
        clicked = st.button(label, type="primary", icon=icon, disabled=disabled, key="submit-study", width=165)
        if clicked and study is not None and not disabled:
            _submit(study, receipt, priority)


def _submit(study: Study, receipt: Receipt, priority: int) -> None:
    """Submit, and update the receipt in place: a second click may abort this run at any access to the session state."""
    try:
        job_id = queue.submit(published_data.settings(), study, priority, actor=visitor.actor())
    except StudyError as error:
        st.session_state[_REFUSAL] = (study.digest(), error.problems)
    else:
        receipt.update(Receipt(digest=study.digest(), job_id=job_id, name=study.name, at=time.monotonic()))
    st.rerun()


def refusals(study: Study) -> list[Problem]:
    """Return why the queue refused this study when it was submitted last."""
    digest, problems = st.session_state.get(_REFUSAL, ("", []))
    return list(problems) if digest == study.digest() else []


def _show_receipt(receipt: Receipt) -> None:
    st.page_link(
        page_file("jobs"),
        label=f"Submitted as {receipt['job_id']}: watch it on the Jobs page",
        icon=":material/arrow_forward:",
        query_params={url_params.JOB.key: url_params.job_label(receipt["name"], receipt["job_id"])},
        width="content",
    )


def _show_again(study: Study, receipt: Receipt, priority: int) -> None:
    with st.popover("", icon=":material/more_vert:", help="Submit the same study again"):
        st.markdown("The same study becomes a second job, which measures everything again.")
        if st.button("Submit it once more", key="submit-again") and time.monotonic() - receipt["at"] > _DOUBLE_CLICK_S:
            _submit(study, receipt, priority)


def _show_problems(problems: Sequence[ShownProblem]) -> None:
    """List the problems, each with a link to its field."""
    items = "".join(
        f'<li><a href="#{problem.anchor}">{html.escape(problem.where)}</a>: {sentence_html(problem.sentence)}</li>'
        for problem in problems[:_MAX_LISTED]
    )
    rest = len(problems) - _MAX_LISTED
    items += f"<li>and {count(rest, 'more problem')}</li>" if rest > 0 else ""
    head = f"{count(len(problems), 'problem')} to fix before this study can be submitted:"
    st.html(f'<div class="problems" role="status"><strong>{head}</strong><ul>{items}</ul></div>')
