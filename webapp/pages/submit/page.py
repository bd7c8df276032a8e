"""Submit: a study as a form or as text, an estimate of its duration, and the button that queues it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from access.web import visitor
from jobs import queue
from lab.errors import StudyError
from lab.study import Study
from webapp.pages.submit import (
    datasets,
    footer,
    form_options,
    form_state,
    row_widgets,
    start,
    text_editor,
    validation_messages,
)
from webapp.pages.submit.form_model import FormValues, sound_part, to_study
from webapp.pages.submit.validation_messages import Problem
from webapp.shared import published_data
from webapp.shared.errors import show_user_errors

_REFUSAL, _SHOWN = "submit-refusal", "submit-problems"


def show_page() -> None:
    st.html(Path(__file__).parents[2] / "static" / "form.css")
    head = st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute")
    head.title("Submit a study", anchor=False, width="content")
    with show_user_errors():
        start.ensure()  # before the switch is drawn: a draft may set it
        with head:
            mode = text_editor.show_switch()
        start.show()
        is_text = mode == text_editor.TOML
        study, problems = check_text() if is_text else check_form()
        datasets.show()
        footer.show(study, problems, is_text=is_text, submit=submit)
        start.save_edits()


def check_text() -> tuple[Study | None, list[Problem]]:
    """Draw the study as text; return it, or None while the text is not a valid study, and its problems."""
    text_editor.follow_form()
    study, problems = text_editor.edit()
    if study is not None:
        problems = problems_here(study)
    text_editor.show_problems(problems)
    return study, problems


def check_form() -> tuple[Study | None, list[Problem]]:
    """Draw the form with each problem beside its field; return the study, or None while it is not valid, and the
    problems.

    Problems are known only after the form has been drawn, so a change in them draws the page once more.
    """
    shown: list[Problem] = st.session_state.get(_SHOWN, [])
    values = form_state.edit(shown)
    study = None
    try:
        study = to_study(values)
        problems = problems_here(study)
    except StudyError as error:
        problems = [*error.problems, *missing_besides(values, error.problems)]
    if problems != shown:
        st.session_state[_SHOWN] = problems
        st.rerun()
    others = validation_messages.elsewhere(problems, form_state.FIELDS)
    row_widgets.show_problems(others, validation_messages.anchor(validation_messages.ELSEWHERE))
    return study, problems


def problems_here(study: Study) -> list[Problem]:
    """What the valid study names and this host lacks, and why the queue refused this very study, if it did."""
    digest, refused = st.session_state.get(_REFUSAL, (None, []))
    return list(dict.fromkeys([*form_options.missing(study), *(refused if digest == study.digest() else [])]))


def missing_besides(values: FormValues, problems: list[Problem]) -> list[Problem]:
    """What the sound part of a study that is not valid names and this host lacks."""
    part = sound_part(values, problems)
    return [] if part is None else validation_messages.moved(form_options.missing(part[0]), part[1])


def submit(study: Study, priority: int) -> str | None:
    """The job's id, or None if the queue refuses the study."""
    try:
        return queue.submit(published_data.settings(), study, priority, actor=visitor.actor())
    except StudyError as error:
        st.session_state[_REFUSAL] = (study.digest(), error.problems)
        return None


if __name__ == "__main__":
    show_page()
