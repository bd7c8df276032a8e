"""Submit: a study as a form or as text, an estimate of its duration, and the button that queues it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TypedDict

import streamlit as st

from jobs import queue
from jobs.order import MAX_PRIORITY
from lab.access import Change
from lab.errors import StudyError
from lab.planning.prospects import Prospects
from lab.study import Study
from lab.study.plan import repeats_of_a_launch
from webapp.access import visitor
from webapp.pages.submit import datasets, form_state, start, text_editor, validation_messages
from webapp.pages.submit.form_model import to_study
from webapp.pages.submit.validation_messages import Problem
from webapp.shared import published_data, url_params
from webapp.shared.cards import Card, show_cards
from webapp.shared.errors import show_user_errors
from webapp.shared.text import count, duration, literal
from webapp.shared.url_params import page_file

#: A second click within this time is a double click, not a second study.
_DOUBLE_CLICK_S = 3.0
_REFUSAL, _RECEIPT, _SHOWN = "submit-refusal", "submit-receipt", "submit-problems"


def show_page() -> None:
    st.html(Path(__file__).parents[2] / "static" / "form.css")
    with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
        st.title("Submit a study", width="content")
        mode = text_editor.show_switch()

    with show_user_errors():
        start.ensure()
        start.show()
        study = check_text() if mode == text_editor.TOML else check_form()
        datasets.show()
    if study is not None:
        with show_user_errors():
            show_plan(study)
            show_submit(study)


class Receipt(TypedDict, total=False):
    """The last study submitted in this session."""

    digest: str
    job_id: str
    name: str
    at: float


def check_text() -> Study | None:
    """Draw the study as text and return it, or None while the text is not a valid study."""
    text_editor.follow_form()
    study = text_editor.edit()
    if study is not None:
        text_editor.show_problems(_refusal(study))
    return study


def check_form() -> Study | None:
    """Draw the form with each problem beside its field and return the study, or None while it is not valid.

    Problems are known only after the form has been drawn, so a change in them draws the page once more.
    """
    shown: list[Problem] = st.session_state.get(_SHOWN, [])
    values = form_state.edit(shown)
    study, problems = None, []
    try:
        study = to_study(values)
        problems = _refusal(study)
    except StudyError as error:
        problems = error.problems
    if problems != shown:
        st.session_state[_SHOWN] = problems
        st.rerun()
    for sentence in validation_messages.elsewhere(problems, form_state.FIELDS):
        st.error(literal(sentence))
    if study is None:
        st.info(f"{count(len(problems), 'problem')} to fix before this study can be submitted.", icon=":material/edit:")
    return study


def _refusal(study: Study) -> list[Problem]:
    """Why the queue refused this very study, if it did."""
    digest, problems = st.session_state.get(_REFUSAL, (None, []))
    return list(problems) if digest == study.digest() else []


def show_plan(study: Study) -> None:
    forecast = published_data.forecast(study)
    prospects = published_data.verdicts_forecast(study)
    per_launch = repeats_of_a_launch(study.order, study.repeats_per_launch, study.repeats)
    starts = "one per arm and repeat" if per_launch == 1 else f"one per arm and {per_launch} repeats"
    runs = "arms × workloads × loads × repeats"
    if study.order == "fewest_launches":
        starts = "one per arm"
    if study.tune is not None:
        starts = runs = "about: a tuning measures what could still win"
    most, open_ended = "at most " if study.until_decided else "", study.tune is not None or study.until_decided
    show_cards(
        [
            Card("Engine starts", f"{most}{forecast.launches:,}", starts),
            Card("Runs", f"{most}{forecast.runs:,}", f"{runs}; {most}{forecast.requests:,} requests"),
            Card("Estimated duration", duration(forecast.seconds), forecast.basis),
            *([] if open_ended else [_decided_card(prospects)]),
        ]
    )
    if prospects is not None:
        st.caption(f"{prospects.advice} Decided cells: {prospects.basis}.".strip())


def _decided_card(prospects: Prospects | None) -> Card:
    """How many cells will probably have a verdict."""
    if prospects is None:
        return Card("Decided cells", "unknown", "until cells with several engine starts were measured on this hardware")
    return Card("Decided cells", f"{prospects.as_is.decided:.0f} of {prospects.cells}", prospects.sentence)


def show_submit(study: Study) -> None:
    receipt: Receipt = st.session_state.setdefault(_RECEIPT, Receipt())
    again = receipt.get("digest") == study.digest()
    highest = MAX_PRIORITY if visitor.allowed_any(Change.ORDER) else 0
    if not visitor.allowed_any(Change.SUBMIT):
        st.info("You can plan a study here; submitting it takes the role of a submitter.", icon=":material/visibility:")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        help_text = "Higher runs first; equal priorities run in the order of submission"
        priority = st.number_input(
            "Priority", -MAX_PRIORITY, highest, 0, step=1, width=110, help=help_text, key="submit-priority"
        )
        label = "Submit again" if again else "Submit study"
        if st.button(label, type="secondary" if again else "primary", icon=":material/send:"):
            _submit(study, receipt, int(priority or 0))
            st.rerun()
        if again:
            _show_receipt(receipt)


def _submit(study: Study, receipt: Receipt, priority: int) -> None:
    """The receipt is updated in place: a second click may abort this script run at any access to the session state."""
    digest = study.digest()
    if receipt.get("digest") == digest and time.monotonic() - receipt["at"] < _DOUBLE_CLICK_S:
        return
    try:
        job_id = queue.submit(published_data.settings(), study, priority, actor=visitor.actor())
    except StudyError as error:
        st.session_state[_REFUSAL] = (digest, error.problems)
        return
    receipt.update(Receipt(digest=digest, job_id=job_id, name=study.name, at=time.monotonic()))


def _show_receipt(receipt: Receipt) -> None:
    st.markdown(f":green[:material/check_circle:] Submitted as `{receipt['job_id']}`", width="content")
    st.page_link(
        page_file("jobs"),
        label="Watch it on the Jobs page",
        icon=":material/arrow_forward:",
        query_params={url_params.JOB.key: url_params.job_label(receipt["name"], receipt["job_id"])},
    )


if __name__ == "__main__":
    show_page()
