"""Submit: a study as a form, what it will cost in time, and the button that queues it."""

from __future__ import annotations

import streamlit as st

from webapp import study_editor, submit_page
from webapp.said import said_here

with st.container(horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"):
    st.title("Submit a study", width="content")
    submit_page.show_sources()

study_editor.ensure_draft()
checked = submit_page.check_form()
if checked is not None:
    submit_page.show_plan(checked)
    with said_here():
        submit_page.show_submit(checked)
    submit_page.show_toml(checked)
