"""What somebody had typed on the Submit page when another study was put in its place, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from webapp.pages.submit import form_state, text_editor
from webapp.pages.submit.form_model import FormValues
from webapp.shared.text import literal

_REPLACED = "submit-replaced"
_MOST_LETTERS = 80


@dataclass(frozen=True)
class Typed:
    """What the form holds, and the text where that is edited and is something else."""

    values: FormValues
    text: str | None


def typed() -> Typed | None:
    """None where nothing was changed since the form was filled, which it was."""
    text = text_editor.typed()
    return None if text is None and not form_state.is_changed() else Typed(form_state.current(), text)


def remember(replaced: Typed | None, go_back: Callable[[], None]) -> None:
    """`go_back` brings back what belongs to it besides."""
    if replaced is None:
        st.session_state.pop(_REPLACED, None)
    else:
        st.session_state[_REPLACED] = (replaced, go_back)


def show() -> None:
    if (found := st.session_state.get(_REPLACED)) is None:
        return
    replaced, _ = found
    name: str = replaced.values.fields["name"] or "a study without a name"
    shown = name if len(name) <= _MOST_LETTERS else f"{name[:_MOST_LETTERS]}…"
    with st.container(border=True, horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f":material/edit_off: What was changed in “{literal(shown)}” was replaced.", width="content")
        st.button("Undo", icon=":material/undo:", key="submit-undo", on_click=_bring_back)


def _bring_back() -> None:
    replaced, go_back = st.session_state.pop(_REPLACED)
    form_state.fill(replaced.values)
    text_editor.forget()
    if replaced.text is not None:
        text_editor.put_back(replaced.text)
    go_back()
