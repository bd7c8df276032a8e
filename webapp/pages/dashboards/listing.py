"""The list of all dashboards, and creating one."""

from __future__ import annotations

import streamlit as st

from lab.errors import UserError
from warehouse.app_db import dashboards
from warehouse.app_db.dashboards import Dashboard
from webapp.pages.dashboards import cards
from webapp.shared import published_data, undo_banner
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import DASHBOARD, page_file

PAGE = page_file("dashboards")
_NAME = "dashboards-new-name"


def show() -> None:
    listed = dashboards.all_dashboards(published_data.engine())
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.title("Dashboards")
        if listed:
            _show_new()
    undo_banner.show(cards.UNDO)
    for each in listed:
        _show_one(each)
    if not listed:
        _show_empty()


def _show_one(each: Dashboard) -> None:
    with st.container(
        border=True, horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", gap="small"
    ):
        st.page_link(
            PAGE,
            label=f"**{literal(each.name)}**",
            icon=":material/dashboard:",
            query_params={DASHBOARD: each.dashboard_id},
        )
        st.markdown(f":gray[{count(each.pins, 'pin')} · changed {moment(each.changed_at)}]", width="content")


def _show_empty() -> None:
    with st.container(border=True, horizontal_alignment="center"):
        st.space("medium")
        st.subheader("No dashboards yet", anchor=False, text_alignment="center")
        st.markdown(
            "Every figure has a pin :material/keep: in its corner, and so has every answer on the SQL page. "
            "Pinned figures appear here side by side, in the order you choose, under a link you can share.",
            text_alignment="center",
        )
        with st.container(horizontal=True, horizontal_alignment="center", vertical_alignment="center"):
            st.page_link(page_file("results"), label="Pin a figure of a study", icon=":material/monitoring:")
            st.page_link(page_file("sql"), label="Pin the answer to a query", icon=":material/database:")
            _show_new()
        st.space("medium")


def _show_new() -> None:
    with st.popover("New dashboard", icon=":material/add:"), st.form("dashboards-new", border=False):
        name = st.text_input("Name", key=_NAME, max_chars=dashboards.MAX_NAME_LENGTH, placeholder="Draft models")
        if st.form_submit_button("Create", type="primary"):
            try:
                created = dashboards.create(published_data.engine(), name.strip())
            except UserError as error:
                st.warning(literal(error), icon=":material/info:")
                return
            st.query_params[DASHBOARD] = created
            st.rerun()
