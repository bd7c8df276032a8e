"""Dashboards: what was pinned side by side, in its order, with a link and as one file."""

from __future__ import annotations

import streamlit as st

from webapp.pages.dashboards import listing, sections
from webapp.shared.errors import said_here
from webapp.shared.url_params import DASHBOARD

with said_here():
    if asked := st.query_params.get(DASHBOARD):
        sections.show(asked)
    else:
        listing.show()
