"""Submit: a study as a form or as text, an estimate of its duration, and the button that queues it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from webapp.pages.submit import datasets, sections, start, text_editor
from webapp.shared.errors import show_user_errors

st.html(Path(__file__).parents[2] / "static" / "form.css")
with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
    st.title("Submit a study", width="content")
    mode = text_editor.show_switch()

with show_user_errors():
    start.ensure()
    start.show()
    study = sections.check_text() if mode == text_editor.TOML else sections.check_form()
    datasets.show()
if study is not None:
    with show_user_errors():
        sections.show_plan(study)
        sections.show_submit(study)
