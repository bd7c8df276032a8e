"""Dashboards: what was pinned side by side, in its order, with a link and as one file."""

from __future__ import annotations

import streamlit as st

from webapp import dashboard_list, dashboards_page
from webapp.params import DASHBOARD
from webapp.said import said_here

with said_here():
    if asked := st.query_params.get(DASHBOARD):
        dashboards_page.show(asked)
    else:
        dashboard_list.show()
