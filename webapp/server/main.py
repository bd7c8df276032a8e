"""The frame of all pages: title, logo, navigation. Streamlit runs it for every visitor and interaction."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from webapp.server import first_paint
from webapp.server.navigation import sections
from webapp.server.script_lock import page_turn
from webapp.shared import url_widgets

STATIC = Path(__file__).parents[1] / "static"

with page_turn():
    st.set_page_config(page_title="Drafthouse", page_icon=str(STATIC / "icon.svg"), layout="wide")
    st.logo(str(STATIC / "logo.svg"), icon_image=str(STATIC / "icon.svg"), size="large")
    page = st.navigation(sections())
    if first_paint.begin(page.url_path):
        url_widgets.follow_link(page.url_path)
    page.run()
