"""SQL: the reader's own question to the warehouse, its answer as a table and as a chart, and a link to both."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from webapp import sql_answer, sql_page
from webapp.said import said_here

st.html(Path(__file__).parents[1] / "static" / "sql.css")
st.title("SQL")
with said_here():
    sql_page.begin()
    editor, schema = st.columns([2.6, 1], gap="medium")
    with editor:
        sql_page.show_editor()
        sql_answer.show()
    with schema:
        sql_page.show_schema()
