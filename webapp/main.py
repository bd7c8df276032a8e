"""What all pages share. Run by Streamlit for every visitor and interaction."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from webapp import first_sight, link
from webapp.sections import sections
from webapp.turns import PAGES

STATIC = Path(__file__).parent / "static"

with PAGES.turn():
    st.set_page_config(page_title="Drafthouse", page_icon=str(STATIC / "icon.svg"), layout="wide")
    st.logo(str(STATIC / "logo.svg"), icon_image=str(STATIC / "icon.svg"), size="large")
    page = st.navigation(sections())
    if first_sight.begin(page.url_path):
        link.follow(page.url_path)
    page.run()
