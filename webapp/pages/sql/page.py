"""SQL: the reader's own query on the warehouse, its answer as a table and as a chart, and a link to both."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from webapp.pages.sql import answer, sections
from webapp.shared.errors import show_user_errors

st.html(Path(__file__).parents[2] / "static" / "sql.css")
st.title("SQL")
with show_user_errors():
    sections.begin()
    editor, schema = st.columns([2.6, 1], gap="medium")
    with editor:
        sections.show_editor()
        answer.show()
    with schema:
        sections.show_schema()
