"""Others: result files of other tools, and published figures beside what was measured here."""

from __future__ import annotations

import streamlit as st

from webapp import others_page
from webapp.said import said_here

st.title("Other people's figures")
with said_here():
    others_page.show_upload()
    others_page.show_published()
