"""The study as text: what the form holds, to be changed and submitted as it is, and back into the form."""

from __future__ import annotations

import streamlit as st

from lab.errors import StudyError
from lab.study import Study
from lab.study.parsing import study_from_toml
from webapp.pages.submit import form_state
from webapp.pages.submit.form_model import from_study, to_toml
from webapp.pages.submit.row_widgets import say
from webapp.pages.submit.validation_messages import Problem

FORM, TOML = "Form", "TOML"
_MODE, _TEXT, _VERSION, _STUCK = "submit-mode", "submit-text", "submit-text-version", "submit-text-stuck"
#: Whether the text is still to be written from the form.
_UNREAD = "submit-text-unread"
_LEAST_LINES, _MOST_LINES, _LINE_HEIGHT = 12, 34, 21


def forget() -> None:
    """The form has another study now."""
    if _MODE in st.session_state and st.session_state[_MODE] == TOML:
        _write()


def typed() -> str | None:
    """The text, while the study is edited so and the text is not what the form holds."""
    if st.session_state.get(_MODE) != TOML or _TEXT not in st.session_state:
        return None
    return None if _text() == to_toml(form_state.current()) else _text()


def put_back(text: str) -> None:
    """What `typed` gave."""
    st.session_state[_MODE] = TOML
    _write(text)


def _write(text: str | None = None) -> None:
    """By default what the form holds."""
    st.session_state[_TEXT] = to_toml(form_state.current()) if text is None else text
    st.session_state[_VERSION] = st.session_state.get(_VERSION, 0) + 1
    st.session_state.pop(_STUCK, None)


def show_switch() -> str:
    """Whether the study is edited as a form or as text."""
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
    """Text that is no study cannot become a form: it stays, and says why."""
    if st.session_state[_MODE] == TOML:
        st.session_state[_UNREAD] = True
        return
    try:
        study = study_from_toml(_text())
    except StudyError:
        st.session_state[_MODE], st.session_state[_STUCK] = TOML, True
        return
    if _text() != to_toml(form_state.current()):
        form_state.fill(from_study(study))


def follow_form() -> None:
    """After a switch, read the form once more: what was typed last may have come with the switch itself."""
    if st.session_state.get(_UNREAD):
        form_state.edit([])
        _write()
        del st.session_state[_UNREAD]
        st.rerun()


def _key() -> str:
    return f"submit-text-{st.session_state[_VERSION]}"


def _text() -> str:
    text: str = st.session_state.get(_key(), st.session_state[_TEXT])
    return text


def edit() -> Study | None:
    """Draw the text with what is wrong with it. The study it describes, or None while it describes none."""
    if _TEXT not in st.session_state:
        _write()
    text = st.session_state[_TEXT]
    height = _LINE_HEIGHT * min(_MOST_LINES, max(_LEAST_LINES, text.count("\n") + 2))
    given = st.text_area("The study in TOML", text, height=height, key=_key(), label_visibility="collapsed")
    st.session_state[_TEXT] = given
    st.caption("Ctrl+Enter checks it. The same text in a file: `drafthouse submit study.toml`.")
    try:
        study = study_from_toml(given or "")
    except StudyError as error:
        if st.session_state.get(_STUCK):
            st.error("The form cannot show this text before what is wrong with it is mended.")
        say_all(error.problems)
        return None
    st.session_state.pop(_STUCK, None)
    return study


def say_all(problems: list[Problem]) -> None:
    """Each with the path of its field."""
    say([f"{path}: {sentence}" if path else sentence for path, sentence in problems])
