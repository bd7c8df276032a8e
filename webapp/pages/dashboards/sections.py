"""One dashboard: its name, what can be done with it, and its cards."""

from __future__ import annotations

from urllib.parse import urljoin

import streamlit as st

from lab.errors import UserError
from warehouse.app_db import dashboards, pins
from warehouse.app_db.dashboards import Dashboard
from warehouse.app_db.pins import Pin
from webapp.pages.dashboards import cards, export_button, listing, render_pins
from webapp.pages.dashboards.cards import SAID
from webapp.shared import drawing, published_data, undo_banner
from webapp.shared.about import View
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import DASHBOARD


def show(dashboard_id: str) -> None:
    st.page_link(listing.PAGE, label="All dashboards", icon=":material/arrow_back:")
    found = dashboards.find(published_data.engine(), dashboard_id)
    if found is None:
        st.title("Dashboards")
        st.warning(
            f"This link asks for the dashboard {literal(dashboard_id)}, which is not here.", icon=":material/link_off:"
        )
    elif found.removed_at is not None:
        _show_removed(found)
    else:
        _show_there(found)


def _show_removed(found: Dashboard) -> None:
    st.title(literal(found.name))
    st.warning(f"This dashboard was removed on {moment(found.removed_at)}.", icon=":material/delete:")
    st.button(
        "Bring it back",
        icon=":material/undo:",
        on_click=dashboards.bring_back,
        args=(published_data.engine(), found.dashboard_id),
    )


def _show_there(found: Dashboard) -> None:
    there = pins.listed(published_data.engine(), found.dashboard_id)
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        with st.container(width="content", gap=None):
            st.title(literal(found.name))
            st.caption(f"{count(len(there), 'pin')} · changed {moment(found.changed_at)}")
        with st.container(horizontal=True, width="content", vertical_alignment="center", gap="small"):
            is_edited = st.toggle("Edit", key="dashboards-edit")
            _show_share(found)
            _show_duplicate(found)
            export_button.show_button(found, there, _link(found))
    undo_banner.show()
    if is_edited:
        _show_naming(found)
    if not there:
        st.info(
            "Nothing is pinned here yet. Every figure has a pin in its corner, and the SQL page has one for each "
            "answer: choose this dashboard there.",
            icon=":material/keep:",
        )
    # It looks for new data when it is opened: a part that runs by itself takes away the file that is being downloaded.
    _show_cards(there, is_edited=is_edited)


def _show_cards(there: list[Pin], *, is_edited: bool) -> None:
    mode = drawing.mode()
    drawn = render_pins.draw(there, mode, st.context.url or "")
    cards.show(drawn, mode, is_edited=is_edited)


def _link(found: Dashboard) -> str:
    return urljoin(st.context.url or "", View("dashboards", {DASHBOARD: (found.dashboard_id,)}).link)


def _show_share(found: Dashboard) -> None:
    with st.popover("Share", icon=":material/link:"):
        st.caption("Whoever can open this page sees the dashboard under this link.")
        st.code(_link(found), language=None, wrap_lines=True)


def _show_duplicate(found: Dashboard) -> None:
    with st.popover("Duplicate", icon=":material/content_copy:"), st.form("dashboards-duplicate", border=False):
        begun = f"Copy of {found.name}"[: dashboards.MOST_NAME_LETTERS].strip()
        name = st.text_input("Name of the copy", begun, max_chars=dashboards.MOST_NAME_LETTERS)
        if st.form_submit_button("Duplicate", type="primary"):
            try:
                copy = dashboards.duplicate(published_data.engine(), found.dashboard_id, name.strip())
            except UserError as error:
                st.warning(literal(error), icon=":material/info:")
                return
            st.query_params[DASHBOARD] = copy
            st.rerun()


def _show_naming(found: Dashboard) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="bottom", gap="small"):
        name_key = f"dashboards-name-{found.dashboard_id}"
        st.text_input(
            "Name of the dashboard",
            found.name,
            max_chars=dashboards.MOST_NAME_LETTERS,
            key=name_key,
            on_change=_rename,
            args=(found, name_key),
        )
        st.button("Remove the dashboard", icon=":material/delete:", on_click=_remove, args=(found,))
    if said := st.session_state.pop(SAID, None):
        st.warning(literal(said), icon=":material/info:")


def _rename(found: Dashboard, name_key: str) -> None:
    try:
        dashboards.rename(published_data.engine(), found.dashboard_id, st.session_state[name_key].strip())
    except UserError as error:
        st.session_state[SAID] = str(error)


def _remove(found: Dashboard) -> None:
    dashboards.remove(published_data.engine(), found.dashboard_id)
    undo_banner.remember("dashboard", found.dashboard_id, found.name)
    del st.query_params[DASHBOARD]
