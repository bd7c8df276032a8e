"""Submit: a study as a form or as text, an estimate of its duration, and the button that queues it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import streamlit as st

from lab.errors import StudyError
from lab.study import Study
from webapp.pages.submit import editing, footer, form_options, inputs, start
from webapp.pages.submit.inputs import ROW, ShownProblem
from webapp.pages.submit.values import TABLES, FormValues, Problem, to_study
from webapp.shared.errors import show_user_errors

_SHOWN = "submit-problems"


def show_page() -> None:
    st.html(Path(__file__).parents[2] / "static" / "form.css")
    head = st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute")
    head.title("Submit a study", anchor=False, width="content")
    with show_user_errors():
        start.ensure()  # before the switch is drawn: a draft may set it
        with head:
            is_text = editing.show_switch()
        start_over = start.show()
        study, problems = check_text() if is_text else check_form()
        form_options.show_datasets()
        footer.show(study, problems)
        start.show_start_over(start_over)
        start.save_draft()


def check_text() -> tuple[Study | None, list[ShownProblem]]:
    """Draw the study as text; return it, or None while the text is not a valid study, and its problems."""
    study, problems = editing.edit_text()
    if study is not None:
        problems = problems_here(study)
    sentences = [f"{path}: {sentence}" if path else sentence for path, sentence in problems]
    inputs.show_sentences(sentences, inputs.ELSEWHERE)
    return study, [dataclasses.replace(inputs.shown_problem(of), anchor=inputs.ELSEWHERE) for of in problems]


def check_form() -> tuple[Study | None, list[ShownProblem]]:
    """Draw the form with each problem beside its field; return the study, or None while it is not valid, and the
    problems.

    Problems are known only after the form has been drawn, so a change in them draws the page once more.
    """
    shown: list[ShownProblem] = st.session_state.get(_SHOWN, [])
    values = editing.edit_form(shown)
    study = None
    try:
        study = to_study(values)
        found = problems_here(study)
    except StudyError as error:
        found = [*error.problems, *missing_besides(values, error.problems)]
    problems = list(map(inputs.shown_problem, found))
    if problems != shown:
        st.session_state[_SHOWN] = problems
        st.rerun()
    inputs.show_problems(problems, inputs.ELSEWHERE)
    return study, problems


def problems_here(study: Study) -> list[Problem]:
    """Return what this host lacks for the valid study, and any reason why the queue refused it."""
    return list(dict.fromkeys([*form_options.missing(study), *footer.refusals(study)]))


def missing_besides(values: FormValues, problems: list[Problem]) -> list[Problem]:
    """Return what this host lacks for the valid fields and rows of an invalid study.

    Returns nothing if the rest does not make a study.
    """
    wrong_rows = {(row[1], int(row[2])) for path, _ in problems if (row := ROW.match(path))}
    wrong = {inputs.shown_problem(problem).anchor for problem in problems}
    valid = {
        table: [index for index in range(len(getattr(values, table))) if (table, index) not in wrong_rows]
        for table in TABLES
    }
    rows = {table: tuple(getattr(values, table)[index] for index in kept) for table, kept in valid.items()}
    if rows["arms"] and not any(arm.get("baseline") for arm in rows["arms"]):
        rows["arms"] = ({**rows["arms"][0], "baseline": True}, *rows["arms"][1:])  # the baseline may be left out
    fields = {path: None if inputs.anchor(path) in wrong else value for path, value in values.fields.items()}
    try:
        study = to_study(FormValues(fields | {"name": fields["name"] or "unnamed"}, **rows))
    except StudyError:
        return []
    return [
        (f"{row[1]}[{valid[row[1]][int(row[2])]}]{path[row.end(2) + 1 :]}" if (row := ROW.match(path)) else path, said)
        for path, said in form_options.missing(study)
    ]


if __name__ == "__main__":
    show_page()
