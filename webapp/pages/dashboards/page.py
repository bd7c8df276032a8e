"""Dashboards: pinned figures side by side, under a link and as one file."""

from __future__ import annotations

from urllib.parse import urljoin

import streamlit as st

from lab.errors import UserError
from warehouse.app_db import dashboards, pins
from warehouse.app_db.dashboards import Dashboard
from warehouse.app_db.pins import Pin
from webapp.pages.dashboards import cards, html_export, render_pins
from webapp.pages.dashboards.cards import REFUSAL
from webapp.shared import published_data, undo_banner
from webapp.shared.errors import show_user_errors
from webapp.shared.figures import colour_mode
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import DASHBOARD, View, page_file

_PAGE = page_file("dashboards")
_NAME = "dashboards-new-name"


def show_page() -> None:
    with show_user_errors():
        if dashboard_id := st.query_params.get(DASHBOARD):
            show_dashboard(dashboard_id)
        else:
            show_list()


def show_dashboard(dashboard_id: str) -> None:
    st.page_link(_PAGE, label="All dashboards", icon=":material/arrow_back:")
    dashboard = dashboards.find(published_data.engine(), dashboard_id)
    if dashboard is None:
        st.title("Dashboards")
        st.warning(
            f"This link names the dashboard {literal(dashboard_id)}, which does not exist.", icon=":material/link_off:"
        )
    elif dashboard.removed_at is not None:
        _show_removed(dashboard)
    else:
        _show_dashboard(dashboard)


def _show_removed(dashboard: Dashboard) -> None:
    st.title(literal(dashboard.name))
    st.warning(f"This dashboard was removed on {moment(dashboard.removed_at)}.", icon=":material/delete:")
    st.button(
        "Restore it",
        icon=":material/undo:",
        on_click=dashboards.restore,
        args=(published_data.engine(), dashboard.dashboard_id),
    )


def _show_dashboard(dashboard: Dashboard) -> None:
    pinned = pins.pins_on(published_data.engine(), dashboard.dashboard_id)
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        with st.container(width="content", gap=None):
            st.title(literal(dashboard.name))
            st.caption(f"{count(len(pinned), 'pin')} · changed {moment(dashboard.changed_at)}")
        with st.container(horizontal=True, width="content", vertical_alignment="center", gap="small"):
            is_edited = st.toggle("Edit", key="dashboards-edit")
            _show_share(dashboard)
            _show_duplicate(dashboard)
            html_export.show_button(dashboard, pinned, _link(dashboard))
    undo_banner.show(cards.UNDO)
    if is_edited:
        _show_naming(dashboard)
    if not pinned:
        st.info(
            "Nothing is pinned here yet. Click the pin in the corner of any figure, or below an answer on the SQL "
            "page, and choose this dashboard.",
            icon=":material/keep:",
        )
    # New data is shown when the page is opened, not while it stays open: a rerun would cancel a download in progress.
    _show_cards(pinned, is_edited=is_edited)


def _show_cards(pinned: list[Pin], *, is_edited: bool) -> None:
    mode = colour_mode()
    cards.show(render_pins.render(pinned, mode, st.context.url or ""), mode, is_edited=is_edited)


def _link(dashboard: Dashboard) -> str:
    return urljoin(st.context.url or "", View("dashboards", {DASHBOARD: (dashboard.dashboard_id,)}).link)


def _show_share(dashboard: Dashboard) -> None:
    with st.popover("Share", icon=":material/link:"):
        st.caption("Anyone who can open this page can open the dashboard with this link.")
        st.code(_link(dashboard), language=None, wrap_lines=True)


def _show_duplicate(dashboard: Dashboard) -> None:
    with st.popover("Duplicate", icon=":material/content_copy:"), st.form("dashboards-duplicate", border=False):
        suggested = f"Copy of {dashboard.name}"[: dashboards.MAX_NAME_LENGTH].strip()
        name = st.text_input("Name of the copy", suggested, max_chars=dashboards.MAX_NAME_LENGTH)
        if st.form_submit_button("Duplicate", type="primary"):
            try:
                copy = dashboards.duplicate(published_data.engine(), dashboard.dashboard_id, name.strip())
            except UserError as error:
                st.warning(literal(error), icon=":material/info:")
                return
            st.query_params[DASHBOARD] = copy
            st.rerun()


def _show_naming(dashboard: Dashboard) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="bottom", gap="small"):
        name_key = f"dashboards-name-{dashboard.dashboard_id}"
        st.text_input(
            "Name of the dashboard",
            dashboard.name,
            max_chars=dashboards.MAX_NAME_LENGTH,
            key=name_key,
            on_change=_rename,
            args=(dashboard, name_key),
        )
        st.button("Remove the dashboard", icon=":material/delete:", on_click=_remove, args=(dashboard,))
    if refusal := st.session_state.pop(REFUSAL, None):
        st.warning(literal(refusal), icon=":material/info:")


def _rename(dashboard: Dashboard, name_key: str) -> None:
    try:
        dashboards.rename(published_data.engine(), dashboard.dashboard_id, st.session_state[name_key].strip())
    except UserError as error:
        st.session_state[REFUSAL] = str(error)


def _remove(dashboard: Dashboard) -> None:
    engine, dashboard_id = published_data.engine(), dashboard.dashboard_id
    dashboards.remove(engine, dashboard_id)
    message = f"The dashboard “{dashboard.name}” was removed."
    undo_banner.record(cards.UNDO, message, icon="delete", undo=lambda: dashboards.restore(engine, dashboard_id))
    del st.query_params[DASHBOARD]


def show_list() -> None:
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
            _PAGE,
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


if __name__ == "__main__":
    show_page()
