"""Submit: a study as a form or as text, what it will cost in time, and the button that queues it."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from webapp import datasets_panel, study_start, submit_page, toml_editor
from webapp.said import said_here

st.html(Path(__file__).parents[1] / "static" / "form.css")
with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
    st.title("Submit a study", width="content")
    mode = toml_editor.show_switch()

with said_here():
    study_start.ensure()
    study_start.show()
    checked = submit_page.check_text() if mode == toml_editor.TOML else submit_page.check_form()
    datasets_panel.show()
if checked is not None:
    with said_here():
        submit_page.show_plan(checked)
        submit_page.show_submit(checked)
