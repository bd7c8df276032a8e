"""The cards of a dashboard, and the buttons that change them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import streamlit as st

from lab.errors import UserError
from warehouse.app_db import pins
from warehouse.app_db.pins import Pin
from webapp.charts.theme import Mode
from webapp.pages.dashboards.pin_dialog import choose_moment
from webapp.pages.dashboards.render_pins import FIGURES, RenderedPin
from webapp.shared import downloads, published_data, undo_banner
from webapp.shared.figures import show_panels
from webapp.shared.text import literal, moment
from webapp.shared.url_params import page_file

_COLUMNS, _LEAST_WIDTH = 2, 400
_TABLE_HEIGHT = 330
#: Key in the session's state: why the last change was refused; the page shows it once.
REFUSAL = "dashboards-refusal"
#: Whose last change `webapp.shared.undo_banner` shows, on the list and on each dashboard.
UNDO = "dashboards"


def show(cards: Sequence[RenderedPin], mode: Mode, *, is_edited: bool) -> None:
    """Two cards a row; a wide figure takes a whole row."""
    if not cards:
        return
    with st.grid(_COLUMNS, min_column_width=_LEAST_WIDTH) as grid:
        for place, each in enumerate(cards):
            is_wide = each.figure is not None and each.figure.is_wide
            with grid.cell(column_span="all" if is_wide else 1):
                _show_card(each, mode)
                if is_edited:
                    _show_controls(cards, place)


def _show_card(each: RenderedPin, mode: Mode) -> None:
    with st.container(border=True, height="stretch", gap="xsmall", key=f"card-{each.pin.pin_id}"):
        with st.container(horizontal=True, wrap=False, horizontal_alignment="distribute", vertical_alignment="center"):
            note = f" :gray[({literal(each.about.note)})]" if each.about.note else ""
            st.markdown(f"**{literal(each.about.title)}**{note}", width="stretch")
            if each.figure is not None:
                figure = replace(each.figure, key=f"{each.pin.pin_id}-{each.figure.key}")
                downloads.show_files(figure, each.about, mode)
        if each.pin.caption:
            st.markdown(literal(each.pin.caption))
        _show_figure(each, mode)
        _show_foot(each)


def _show_figure(each: RenderedPin, mode: Mode) -> None:
    if each.figure is None:
        st.warning(literal(each.problem), icon=":material/link_off:")
    elif each.figure.panels:
        show_panels(each.figure, mode)
    else:
        st.dataframe(each.figure.rows, hide_index=True, height=_TABLE_HEIGHT, alt=each.about.title, placeholder="")


def _show_foot(each: RenderedPin) -> None:
    as_of = each.pin.shown.as_of
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        if as_of is None:
            st.caption(f":material/sync: newest data: {moment(each.about.as_of)}", width="content")
        else:
            st.caption(f":material/history: data as of {moment(as_of)}", width="content")
        if each.view.page not in FIGURES:
            return
        st.page_link(
            page_file(each.view.page),
            label="Source page",
            icon=":material/open_in_new:",
            query_params=[(name, value) for name, values in each.view.parameters.items() for value in values],
        )


def _show_controls(cards: Sequence[RenderedPin], place: int) -> None:
    pin = cards[place].pin
    with st.container(border=True, gap="small"):
        with st.container(horizontal=True, gap="small"):
            _button("Up", "arrow_upward", pin.pin_id, lambda: _move(cards, place, place - 1), disabled=place == 0)
            last = place == len(cards) - 1
            _button("Down", "arrow_downward", pin.pin_id, lambda: _move(cards, place, place + 2), disabled=last)
            _button("Remove", "delete", pin.pin_id, lambda: _remove(cards[place]))
        _show_caption_and_moment(pin)


def _show_caption_and_moment(pin: Pin) -> None:
    """Both are saved with one button."""
    caption = st.text_area(
        "Caption", pin.caption, key=f"caption-{pin.pin_id}", max_chars=pins.MAX_CAPTION_LENGTH, height=80
    )
    as_of = choose_moment(f"as-of-{pin.pin_id}", pin.shown.as_of)
    st.button(
        "Save",
        type="primary",
        key=f"save-{pin.pin_id}",
        on_click=_save,
        args=(pin, caption.strip(), as_of),
    )


def _save(pin: Pin, caption: str, as_of: datetime | None) -> None:
    _try(lambda: pins.change(published_data.engine(), pin.pin_id, caption, as_of))


def _move(cards: Sequence[RenderedPin], place: int, to: int) -> None:
    before = cards[to].pin.pin_id if to < len(cards) else None
    _try(lambda: pins.move(published_data.engine(), cards[place].pin.pin_id, before))


def _remove(each: RenderedPin) -> None:
    engine, pin_id = published_data.engine(), each.pin.pin_id
    pins.remove(engine, pin_id)
    message = f"The pin “{each.about.title}” was removed."
    undo_banner.record(UNDO, message, icon="delete", undo=lambda: pins.restore(engine, pin_id))


def _try(change: Callable[[], None]) -> None:
    try:
        change()
    except UserError as error:
        st.session_state[REFUSAL] = str(error)


def _button(label: str, icon: str, pin_id: str, change: Callable[[], None], **options: Any) -> None:
    st.button(label, icon=f":material/{icon}:", key=f"{label.lower()}-{pin_id}", on_click=change, **options)
