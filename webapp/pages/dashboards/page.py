"""Dashboards: pinned figures side by side, under a link and as one file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import streamlit as st

from access.shared_links import Kind
from access.web import visitor
from lab.roles import Change
from warehouse.app_db import dashboards, pins
from warehouse.app_db.dashboards import Dashboard
from warehouse.app_db.pins import Pin
from webapp.charts.theme import Mode
from webapp.pages.dashboards import arranging, html_export, render_pins, variables
from webapp.pages.dashboards.arranging import Arranged
from webapp.pages.dashboards.render_pins import RenderedPin, view_of
from webapp.shared import dialogs, downloads, published_data, study_picker, undo_banner
from webapp.shared.dialogs import choose_moment
from webapp.shared.errors import callback, show_refusals, show_user_errors
from webapp.shared.figures import colour_mode, show_panels
from webapp.shared.tables import show_rows, written
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import DASHBOARD, FULL, View, page_file

_PAGE = page_file("dashboards")
_NAME = "dashboards-new-name"
_COLUMNS, _LEAST_WIDTH = 2, 400
_TABLE_HEIGHT = 330
_MAX_TITLE = 120
#: What the line of a title shows beside the title.
_LINE = 3
_LIVE = "dashboards-live"
#: Everything around the cards.
_FULL_SCREEN = """<style>
[data-testid=stSidebar], [data-testid=stHeader], .st-key-study-bar { display: none }
[data-testid=stMainBlockContainer] { padding-top: 1rem; max-width: none }
</style>"""
#: Whose last change `webapp.shared.undo_banner` shows, on the list and on each dashboard.
UNDO = "dashboards"


def show_page() -> None:
    with show_user_errors():
        if dashboard_id := st.query_params.get(DASHBOARD):
            show_dashboard(dashboard_id)
        else:
            show_list()


def show_dashboard(dashboard_id: str) -> None:
    if FULL not in st.query_params:
        st.page_link(_PAGE, label="All dashboards", icon=":material/arrow_back:")
    dashboard = dashboards.find(published_data.engine(), dashboard_id)
    if dashboard is None:
        st.title("Dashboards", anchor=False)
        st.warning(
            f"This link names the dashboard {literal(dashboard_id)}, which does not exist.", icon=":material/link_off:"
        )
    elif dashboard.removed_at is not None:
        st.title(literal(dashboard.name), anchor=False)
        st.warning(f"This dashboard was removed on {moment(dashboard.removed_at)}.", icon=":material/delete:")
        if visitor.allowed(Change.DASHBOARD, dashboard.owner):
            st.button("Restore it", icon=":material/undo:", on_click=_restore, args=(dashboard_id,))
    else:
        _show_dashboard(dashboard)


@callback
def _restore(dashboard_id: str) -> None:
    dashboards.restore(published_data.engine(), dashboard_id, actor=visitor.actor())


def _show_dashboard(dashboard: Dashboard) -> None:
    pinned = pins.pins_on(published_data.engine(), dashboard.dashboard_id)
    is_full = FULL in st.query_params
    if is_full:
        st.html(_FULL_SCREEN)
    head = st.container()
    values = variables.choose() if pinned else {}
    shown = variables.applied(pinned, values)
    with head:
        is_edited = _show_head(dashboard, shown, values, is_full=is_full)
        undo_banner.show(UNDO)
        if is_edited:
            _show_naming(dashboard)
        if not pinned:
            st.info(
                "Nothing is pinned here yet. Click the pin in the corner of any figure, or below an answer on the SQL "
                "page, and choose this dashboard.",
                icon=":material/keep:",
            )
    mode = colour_mode()
    show(render_pins.render(shown, mode, st.context.url or ""), mode, values, is_edited=is_edited)
    if st.session_state.get(_LIVE) or is_full:
        published_data.rerun_when_published(published_data.publication(), "10s")  # rarely: it cancels a download


def _show_head(dashboard: Dashboard, shown: Sequence[Pin], values: variables.Values, *, is_full: bool) -> bool:
    """Show name and buttons. Returns whether the dashboard is being edited."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        with st.container(width="content", gap=None):
            st.title(literal(dashboard.name), anchor=False)
            st.caption(f"{count(len(shown), 'pin')} · changed {moment(dashboard.changed_at)}")
        with st.container(horizontal=True, width="content", vertical_alignment="center", gap="small"):
            is_edited = False
            if not is_full:
                st.toggle("Live", key=_LIVE, help="Show new runs as they come, without a reload")
                if visitor.allowed(Change.DASHBOARD, dashboard.owner):
                    is_edited = st.toggle("Edit", key="dashboards-edit")
            _link_full_screen(dashboard, values, is_full=is_full)
            if not is_full:
                view = View("dashboards", {DASHBOARD: (dashboard.dashboard_id,)})
                dialogs.show_share_menu(Kind.DASHBOARD, dashboard.dashboard_id, dashboard.name, view)
                _show_duplicate(dashboard)
                html_export.show_button(dashboard, shown, urljoin(st.context.url or "", view.link))
    return is_edited


def _link_full_screen(dashboard: Dashboard, values: variables.Values, *, is_full: bool) -> None:
    query = {DASHBOARD: dashboard.dashboard_id, **values} | ({} if is_full else {FULL: "1"})
    label, icon = (
        ("Leave the full screen", ":material/fullscreen_exit:") if is_full else ("Full screen", ":material/fullscreen:")
    )
    help_text = "The cards alone, with new data as it comes"
    st.page_link(_PAGE, label=label, icon=icon, query_params=query, help=help_text)


def _show_duplicate(dashboard: Dashboard) -> None:
    def duplicate(name: str) -> str:
        return dashboards.duplicate(published_data.engine(), dashboard.dashboard_id, name, actor=visitor.actor())

    with st.popover("Duplicate", icon=":material/content_copy:"), st.form("dashboards-duplicate", border=False):
        suggested = f"Copy of {dashboard.name}"[: dashboards.MAX_NAME_LENGTH].strip()
        name = st.text_input("Name of the copy", suggested, max_chars=dashboards.MAX_NAME_LENGTH)
        _show_submit("Duplicate", name, duplicate)


def _show_submit(label: str, name: str, make: Callable[[str], str]) -> None:
    """Show the button of a form that creates a dashboard of this name and opens it."""
    if st.form_submit_button(label, type="primary"):
        with show_refusals():
            st.query_params[DASHBOARD] = make(name.strip())
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
        st.button("Add a text card", icon=":material/notes:", on_click=_add_text, args=(dashboard,))
        st.button("Remove the dashboard", icon=":material/delete:", on_click=_remove, args=(dashboard,))


@callback
def _rename(dashboard: Dashboard, name_key: str) -> None:
    name = st.session_state[name_key].strip()
    dashboards.rename(published_data.engine(), dashboard.dashboard_id, name, actor=visitor.actor())


@callback
def _add_text(dashboard: Dashboard) -> None:
    caption = pins.caption_of("Title", "Text of the card")
    pins.add(published_data.engine(), dashboard.dashboard_id, pins.text_card(), caption, actor=visitor.actor())


@callback
def _remove(dashboard: Dashboard) -> None:
    dashboard_id = dashboard.dashboard_id
    dashboards.remove(published_data.engine(), dashboard_id, actor=visitor.actor())
    message = f"The dashboard “{dashboard.name}” was removed."
    undo_banner.record(UNDO, message, icon=":material/delete:", undo=lambda: _restore(dashboard_id))
    del st.query_params[DASHBOARD]


def show_list() -> None:
    listed = dashboards.all_dashboards(published_data.engine())
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.title("Dashboards", anchor=False)
        if listed:
            _show_new()
    undo_banner.show(UNDO)
    for dashboard in listed:
        _show_one(dashboard)
    if not listed:
        _show_empty()


def _show_one(dashboard: Dashboard) -> None:
    with st.container(
        border=True, horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", gap="small"
    ):
        st.page_link(
            _PAGE,
            label=f"**{literal(dashboard.name)}**",
            icon=":material/dashboard:",
            query_params={DASHBOARD: dashboard.dashboard_id},
        )
        whose = f" · {literal(dashboard.owner)}" if dashboard.owner and visitor.has_signed_in() else ""
        changed = f"{count(dashboard.pins, 'pin')}{whose} · changed {moment(dashboard.changed_at)}"
        st.markdown(f":gray[{changed}]", width="content")


def _show_empty() -> None:
    text = (
        "Every figure has a pin :material/keep: in its corner, and so has every answer on the SQL page. "
        "Pinned figures appear here side by side, in the order you choose, under a link you can share."
    )
    with (
        study_picker.empty_state("No dashboards yet", text),
        st.container(horizontal=True, horizontal_alignment="center", vertical_alignment="center"),
    ):
        st.page_link(page_file("results"), label="Pin a figure of a study", icon=":material/monitoring:")
        st.page_link(page_file("sql"), label="Pin the answer to a query", icon=":material/database:")
        _show_new()


def _show_new() -> None:
    with st.popover("New dashboard", icon=":material/add:"), st.form("dashboards-new", border=False):
        name = st.text_input("Name", key=_NAME, max_chars=dashboards.MAX_NAME_LENGTH, placeholder="Draft models")
        _show_submit(
            "Create", name, lambda name: dashboards.create(published_data.engine(), name, actor=visitor.actor())
        )


def show(cards: Sequence[RenderedPin], mode: Mode, values: variables.Values, *, is_edited: bool) -> None:
    """Show two cards per row; a wide figure takes a whole row."""
    if not cards:
        return
    with st.grid(_COLUMNS, min_column_width=_LEAST_WIDTH) as grid:
        for position, card in enumerate(cards):
            with grid.cell(column_span="all" if card.is_wide else 1):
                _show_card(card, mode, values)
                if is_edited:
                    _show_controls(cards, position)
    if is_edited:
        st.html(Path(__file__).parents[2] / "static" / "arranging.css")
        arranging.show({card.pin.pin_id: card.about.title for card in cards}, _arrange)


@callback
def _arrange(change: Arranged) -> None:
    engine, actor = published_data.engine(), visitor.actor()
    if change.is_wide is not None:
        pins.resize(engine, change.pin_id, is_wide=change.is_wide, actor=actor)
    else:
        pins.move(engine, change.pin_id, change.before, actor=actor)


def _show_card(card: RenderedPin, mode: Mode, values: variables.Values) -> None:
    with st.container(border=True, height="stretch", gap="xsmall", key=f"card-{card.pin.pin_id}"):
        with st.container(horizontal=True, wrap=False, horizontal_alignment="distribute", vertical_alignment="center"):
            note = f" :gray[({literal(card.about.note)})]" if card.about.note else ""
            if card.about.title:
                st.markdown(f"**{literal(card.about.title)}**{note}", width="stretch")
            if card.figure is not None:
                figure = replace(card.figure, key=f"{card.pin.pin_id}-{card.figure.key}")
                downloads.show_files(figure, card.about, mode)
        if card.pin.text:
            st.markdown(literal(card.pin.text))
        if card.pin.shown.page != pins.TEXT:
            _show_figure(card, mode)
            _show_foot(card, values)


def _show_figure(card: RenderedPin, mode: Mode) -> None:
    if card.figure is None:
        st.warning(literal(card.problem), icon=":material/link_off:")
    elif card.figure.panels:
        show_panels(card.figure, mode, key=card.pin.pin_id)
    else:
        show_rows(*written(card.figure.rows, {}), card.about.title, height=_TABLE_HEIGHT)


def _show_foot(card: RenderedPin, values: variables.Values) -> None:
    as_of = card.pin.shown.as_of
    if ignored := variables.ignored(card.pin, values):
        st.caption(f":material/info: {ignored}")
    if card.about.subject:
        st.caption(literal(card.about.subject))
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        newest = f":material/sync: newest data: {moment(card.about.as_of)}"
        st.caption(newest if as_of is None else f":material/history: data as of {moment(as_of)}", width="content")
        if not render_pins.has_page(card.pin.shown):
            return
        view = view_of(card.pin)
        st.page_link(
            page_file(view.page),
            label="Source page",
            icon=":material/open_in_new:",
            query_params=[(name, value) for name, values in view.parameters.items() for value in values],
        )


def _show_controls(cards: Sequence[RenderedPin], position: int) -> None:
    pin = cards[position].pin
    with st.container(border=True, gap="small"):
        with st.container(horizontal=True, gap="small"):
            ids = [*(card.pin.pin_id for card in cards), None, None]
            up, down = (Arranged(pin.pin_id, ids[to], None) for to in (position - 1, position + 2))
            last = position == len(cards) - 1
            _button("Up", ":material/arrow_upward:", pin.pin_id, lambda: _arrange(up), disabled=position == 0)
            _button("Down", ":material/arrow_downward:", pin.pin_id, lambda: _arrange(down), disabled=last)
            wider, to_wide = ("Narrower", False) if cards[position].is_wide else ("Wider", True)
            resized = Arranged(pin.pin_id, None, to_wide)
            _button(
                wider,
                ":material/width_wide:" if to_wide else ":material/width_normal:",
                pin.pin_id,
                lambda: _arrange(resized),
            )
            _button("Remove", ":material/delete:", pin.pin_id, lambda: _remove_card(cards[position]))
        _show_caption_and_moment(pin)


def _show_caption_and_moment(pin: Pin) -> None:
    """Show caption and point in time; one button saves both."""
    is_text = pin.shown.page == pins.TEXT
    placeholder = "None" if is_text else "The figure's own"
    st.text_input("Title", pin.title, key=f"title-{pin.pin_id}", max_chars=_MAX_TITLE, placeholder=placeholder)
    most = pins.MAX_CAPTION_LENGTH - _MAX_TITLE - _LINE
    st.text_area("Text" if is_text else "Caption", pin.text, key=f"caption-{pin.pin_id}", max_chars=most, height=80)
    as_of = None if is_text else choose_moment(f"as-of-{pin.pin_id}", pin.shown.as_of)
    st.button("Save", type="primary", key=f"save-{pin.pin_id}", on_click=_save, args=(pin, as_of))


@callback
def _save(pin: Pin, as_of: datetime | None) -> None:
    """Save the current values of the fields; the click may come before the page has rerun with them."""
    caption = pins.caption_of(*(st.session_state[f"{field}-{pin.pin_id}"] for field in ("title", "caption")))
    pins.change(published_data.engine(), pin.pin_id, caption, as_of, actor=visitor.actor())


@callback
def _remove_card(card: RenderedPin) -> None:
    engine, pin_id = published_data.engine(), card.pin.pin_id
    pins.remove(engine, pin_id, actor=visitor.actor())
    message = f"The pin “{card.about.title}” was removed."
    undo_banner.record(
        UNDO, message, icon=":material/delete:", undo=lambda: pins.restore(engine, pin_id, actor=visitor.actor())
    )


def _button(label: str, icon: str, pin_id: str, change: Callable[[], None], **options: Any) -> None:
    st.button(label, icon=icon, key=f"{label.lower()}-{pin_id}", on_click=change, **options)


if __name__ == "__main__":
    show_page()
