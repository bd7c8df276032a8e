"""Dashboards: pinned figures side by side, under a link and as one file."""

from __future__ import annotations

import streamlit as st

from webapp.pages.dashboards import listing, sections
from webapp.shared.errors import show_user_errors
from webapp.shared.url_params import DASHBOARD

with show_user_errors():
    if dashboard_id := st.query_params.get(DASHBOARD):
        sections.show(dashboard_id)
    else:
        listing.show()
