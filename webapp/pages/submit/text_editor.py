"""The study as TOML text: written from the form, edited, submitted as it is, and read back into the form."""

from __future__ import annotations

import streamlit as st

from lab.errors import StudyError
from lab.study import Study
from lab.study.parsing import study_from_toml
from webapp.pages.submit import form_state, row_widgets, validation_messages
from webapp.pages.submit.form_model import from_study, to_toml
from webapp.pages.submit.validation_messages import Problem

FORM, TOML = "Form", "TOML"
_MODE, _TEXT, _VERSION = "submit-mode", "submit-text", "submit-text-version"
#: Set while the form cannot be shown because the text is not a valid study.
_INVALID = "submit-text-invalid"
#: Set while the text has yet to be written from the form.
_PENDING = "submit-text-pending"
_MIN_LINES, _MAX_LINES, _LINE_HEIGHT = 12, 34, 21


def reset() -> None:
    """Discard edits of the text after the form was filled with another study."""
    if _MODE in st.session_state and st.session_state[_MODE] == TOML:
        _write()


def unsaved_text() -> str | None:
    """The text, if the study is being edited as text that differs from the form."""
    if st.session_state.get(_MODE) != TOML or _TEXT not in st.session_state:
        return None
    return None if _text() == to_toml(form_state.current()) else _text()


def restore(text: str) -> None:
    """Show this text again, as `unsaved_text` returned it."""
    st.session_state[_MODE] = TOML
    _write(text)


def _write(text: str | None = None) -> None:
    """Replace the text, by default with the form's study."""
    st.session_state[_TEXT] = to_toml(form_state.current()) if text is None else text
    st.session_state[_VERSION] = st.session_state.get(_VERSION, 0) + 1
    st.session_state.pop(_INVALID, None)


def show_switch() -> str:
    """Draw the switch between form and text, and return its position."""
    chosen: str = st.segmented_control(
        "Edit as",
        [FORM, TOML],
        default=FORM,
        required=True,
        key=_MODE,
        on_change=_switched,
        persist_state="session",
        label_visibility="collapsed",
    )
    return chosen


def _switched() -> None:
    """Fill the form from the text. A text that is not a valid study stays, and its problems are shown."""
    if st.session_state[_MODE] == TOML:
        st.session_state[_PENDING] = True
        return
    try:
        study = study_from_toml(_text())
    except StudyError:
        st.session_state[_MODE], st.session_state[_INVALID] = TOML, True
        return
    if _text() != to_toml(form_state.current()):
        form_state.fill(from_study(study))


def follow_form() -> None:
    """After a switch to text, read the form once more: the last edit may have arrived together with the switch."""
    if st.session_state.get(_PENDING):
        form_state.edit([])
        _write()
        del st.session_state[_PENDING]
        st.rerun()


def _key() -> str:
    return f"submit-text-{st.session_state[_VERSION]}"


def _text() -> str:
    text: str = st.session_state.get(_key(), st.session_state[_TEXT])
    return text


def edit() -> tuple[Study | None, list[Problem]]:
    """Draw the text; return the study, or None and why it is not valid."""
    if _TEXT not in st.session_state:
        _write()
    text = st.session_state[_TEXT]
    height = _LINE_HEIGHT * min(_MAX_LINES, max(_MIN_LINES, text.count("\n") + 2))
    entered = st.text_area("The study in TOML", text, height=height, key=_key(), label_visibility="collapsed")
    st.session_state[_TEXT] = entered
    st.caption("Ctrl+Enter checks the text. To submit it from a file: `drafthouse submit study.toml`.")
    try:
        study = study_from_toml(entered or "")
    except StudyError as error:
        if st.session_state.get(_INVALID):
            st.error("Fix these problems before switching to the form.")
        return None, error.problems
    st.session_state.pop(_INVALID, None)
    return study, []


def show_problems(problems: list[Problem]) -> None:
    """Each problem with the path of its field."""
    sentences = [f"{path}: {sentence}" if path else sentence for path, sentence in problems]
    row_widgets.show_problems(sentences, validation_messages.anchor(validation_messages.ELSEWHERE))
