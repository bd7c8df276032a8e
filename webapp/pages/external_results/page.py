"""External results: result files of other tools, and published figures beside those measured here."""

from __future__ import annotations

import streamlit as st

from webapp.pages.external_results import sections
from webapp.shared.errors import show_user_errors

st.title("External results")
with show_user_errors():
    sections.show_upload()
    sections.show_published()
